package probe

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// startInterval is the longest wait between probes of a proxy without a good verdict: people wait for it to come up.
	startInterval = 5 * time.Second
	// jitter spreads probes by this share of the interval, so that a fleet made in one go is not probed in one go.
	jitter = 0.1
)

// Options of a Prober.
type Options struct {
	// Concurrency is the number of requests in flight over all targets.
	Concurrency int
	// Changed is called with the key of a target whose verdict, class or message has changed. It must not block.
	Changed func(key string)
	// Request and Control make one probe; nil: the functions of this package.
	Request, Control func(context.Context, Target) Observation
	// Rand returns a number in [0,1); nil: math/rand.
	Rand func() float64
}

// Prober probes targets in the background until they are forgotten. Its methods are safe for concurrent use; targets may
// be set before Start.
type Prober struct {
	opts  Options
	slots *semaphore.Weighted

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // Start's, for targets that are set while it runs; else nil
	tasks map[string]*task
	wg    sync.WaitGroup
}

// task is one target and its life. Its fields are guarded by Prober.mu.
type task struct {
	target Target
	state  State
	cancel context.CancelFunc
}

// NewProber returns a prober that does nothing before Start.
func NewProber(opts Options) *Prober {
	if opts.Concurrency <= 0 {
		opts.Concurrency = 1
	}
	if opts.Request == nil {
		opts.Request, opts.Control = Request, Control
	}
	if opts.Rand == nil {
		opts.Rand = rand.Float64
	}
	if opts.Changed == nil {
		opts.Changed = func(string) {}
	}
	return &Prober{opts: opts, slots: semaphore.NewWeighted(int64(opts.Concurrency)), tasks: map[string]*task{}}
}

// Start probes until ctx ends and every probe has returned. It is a manager's Runnable.
func (p *Prober) Start(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for key, t := range p.tasks {
		p.launch(ctx, key, t)
	}
	p.mu.Unlock()
	<-ctx.Done()
	// From here on nothing is added to the group any more.
	p.mu.Lock()
	p.ctx = nil
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}

// NeedLeaderElection makes only the leader probe: there is one writer of a verdict.
func (p *Prober) NeedLeaderElection() bool { return true }

// Set starts to probe target under key, or goes on with changed parameters. Another Identity or Address forgets the verdict,
// for it was about something else. The state of a target that is new to this prober is initial, by which a verdict outlives
// the process. It returns the state as it is now.
func (p *Prober) Set(key string, target Target, initial State) State {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.tasks[key]
	if ok && t.target == target {
		return t.state
	}
	next := &task{target: target, state: initial}
	if ok {
		t.stop()
		next.state = State{Health: HealthUnknown}
		if t.target.Identity == target.Identity && t.target.Address == target.Address {
			next.state = t.state
		}
	}
	p.tasks[key] = next
	p.launch(p.ctx, key, next)
	return next.state
}

// Forget stops probing key.
func (p *Prober) Forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.tasks[key]; ok {
		t.stop()
		delete(p.tasks, key)
	}
}

func (t *task) stop() {
	if t.cancel != nil {
		t.cancel()
	}
}

// launch starts the task's goroutine when the prober runs, which a nil base says it does not. p.mu is held.
func (p *Prober) launch(base context.Context, key string, t *task) {
	if base == nil || base.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(base)
	t.cancel = cancel
	p.wg.Go(func() {
		defer cancel()
		p.loop(ctx, key, t)
	})
}

func (p *Prober) loop(ctx context.Context, key string, t *task) {
	// The first probe comes within a second: somebody waits for it.
	timer := time.NewTimer(time.Duration(p.opts.Rand() * float64(min(time.Second, t.target.Interval))))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if p.slots.Acquire(ctx, 1) != nil {
			return
		}
		wait := p.probe(ctx, key, t)
		p.slots.Release(1)
		timer.Reset(wait)
	}
}

// probe makes one probe, with its control probe when one is due, and returns the wait for the next.
func (p *Prober) probe(ctx context.Context, key string, t *task) time.Duration {
	before := t.state // only this goroutine writes it
	o := p.opts.Request(ctx, t.target)
	if before.AboutToFail(t.target, o.Class) {
		if c := p.opts.Control(ctx, t.target); c.Class != Success {
			o = Observation{Class: TargetUnavailable, Message: "the probe target does not give the expected answer without the proxy either", At: c.At}
		}
	}
	if ctx.Err() != nil {
		return 0 // cancelled in the middle: what was seen is about the cancellation
	}
	after := before.Next(t.target, o)
	p.mu.Lock()
	t.state = after
	p.mu.Unlock()
	if after.Differs(before) {
		p.opts.Changed(key)
	}
	return p.wait(t.target, after)
}

func (p *Prober) wait(t Target, s State) time.Duration {
	interval := t.Interval
	if s.Health != Healthy {
		interval = min(interval, startInterval)
	}
	return time.Duration(float64(interval) * (1 - jitter + 2*jitter*p.opts.Rand()))
}
