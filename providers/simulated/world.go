package simulated

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

// World holds hosts and what is on them. Several providers may share one: managers before and after a crash, or of two
// installations.
type World struct {
	clock Clock

	mu       sync.Mutex
	hosts    map[string]*hostState
	images   map[string]*imageSource // by URL: what a download from there gives
	subs     []*subscription
	tasks    []*task
	pending  []change
	inFlight map[machineKey]bool
	closed   bool
}

// hostState is one hypervisor.
type hostState struct {
	name                       string
	down, denied, full         bool
	slow                       time.Duration
	storage, network           error
	images                     map[string]*cachedImage // by checksum
	machines                   map[uuid.UUID]*machine
	lastSeen                   time.Time
	knownStorage, knownNetwork error // last seen storage and network errors, kept while the host is down
}

type machineKey struct {
	host string
	id   uuid.UUID
}

// task is something that happens later. A task with an owner dies with it.
type task struct {
	at    time.Time
	owner *Provider
	run   func()
	done  chan struct{} // closed when it need not be awaited any more
}

// NewWorld makes an empty one; a nil clock means real time. Close it.
func NewWorld(c Clock) *World {
	if c == nil {
		c = realTime{}
	}
	return &World{clock: c, hosts: map[string]*hostState{}, images: map[string]*imageSource{}, inFlight: map[machineKey]bool{}}
}

// Close powers every machine off and closes their listeners.
func (w *World) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tasks {
		close(t.done)
	}
	w.tasks, w.subs, w.closed = nil, nil, true
	for _, h := range w.hosts {
		for _, m := range h.machines {
			m.proxy.close()
		}
	}
}

// do runs fn under the lock after whatever is due, and then tells the subscribers, without the lock.
func (w *World) do(fn func() error) error {
	deliveries, err := w.locked(fn)
	for _, deliver := range deliveries {
		deliver()
	}
	return err
}

func (w *World) locked(fn func() error) ([]func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle()
	err := fn()
	return w.takeEvents(), err
}

// settle runs the tasks that are due, oldest first.
func (w *World) settle() {
	for {
		now := w.clock.Now()
		slices.SortStableFunc(w.tasks, func(a, b *task) int { return a.at.Compare(b.at) })
		if len(w.tasks) == 0 || w.tasks[0].at.After(now) {
			return
		}
		t := w.tasks[0]
		w.tasks = w.tasks[1:]
		close(t.done)
		t.run()
	}
}

// after schedules run, which is called under the lock; at once when d is not positive.
func (w *World) after(d time.Duration, owner *Provider, run func()) {
	if d <= 0 {
		run()
		return
	}
	t := &task{at: w.clock.Now().Add(d), owner: owner, run: run, done: make(chan struct{})}
	w.tasks = append(w.tasks, t)
	due := w.clock.After(d)
	go func() {
		select {
		case <-due:
			_ = w.do(func() error { return nil })
		case <-t.done:
		}
	}()
}

// end makes p refuse calls with err and drops its background work and subscriptions.
func (w *World) end(p *Provider, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.ended == nil {
		p.ended = err
	}
	w.tasks = slices.DeleteFunc(w.tasks, func(t *task) bool {
		if t.owner == p {
			close(t.done)
		}
		return t.owner == p
	})
	w.subs = slices.DeleteFunc(w.subs, func(s *subscription) bool { return s.p == p })
	for _, h := range w.hosts {
		h.dropDownloads(p)
	}
}

// host returns the host of that name, which exists from its first mention on.
func (w *World) host(name string) *hostState {
	h := w.hosts[name]
	if h == nil {
		h = &hostState{name: name, images: map[string]*cachedImage{}, machines: map[uuid.UUID]*machine{}}
		w.hosts[name] = h
	}
	return h
}

// reach returns the host as p sees it, or why p does not.
func (p *Provider) reach(name string) (*hostState, error) {
	if p.ended != nil {
		return nil, p.ended
	}
	if p.world.closed {
		return nil, &providers.Error{Kind: providers.Internal, Reason: "Closed", Msg: "the simulated world is closed"}
	}
	if _, ok := p.hosts[name]; !ok {
		return nil, &providers.Error{Kind: providers.Unreachable, Reason: "HostUnknown", Host: name, Msg: "this host was never handed over, so nothing can be told of it"}
	}
	h := p.world.host(name)
	switch {
	case h.down:
		return nil, &providers.Error{Kind: providers.Unreachable, Host: name, Msg: "the simulated host is down"}
	case h.denied:
		return nil, &providers.Error{Kind: providers.Denied, Host: name, Msg: "the simulated host refuses the credentials"}
	}
	h.lastSeen = p.world.clock.Now()
	h.knownStorage, h.knownNetwork = h.storage, h.network
	return h, nil
}
