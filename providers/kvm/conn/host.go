package conn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
)

// Host is one libvirt host. Its methods are safe for concurrent use. Start is called once.
type Host struct {
	cfg      Config
	endpoint endpoint
	dialer   dialer
	hook     Hook

	ctx    context.Context //nolint:containedctx // the lifetime of the host's goroutines
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	calls     chan struct{}
	transfers chan struct{}
	agent     *side
	events    *eventQueue

	mu     sync.Mutex
	closed bool
	main   *link // nil while there is none
	state  State
}

// State is what is known of the connection.
type State struct {
	// Err is nil while connected, else why not: a *providers.Error.
	Err error
	// Since is when Err became nil or not nil.
	Since time.Time
	// LastSeen is when the host last sent something; zero: never.
	LastSeen time.Time
	// LibvirtVersion is "major.minor.release" of the last connection.
	LibvirtVersion string
	// Attempts counts the failed attempts since the last success; NextAttempt is when the next one starts.
	Attempts    int
	NextAttempt time.Time
	// Connects counts the connections that were opened.
	Connects int
}

// New checks the configuration; it does not touch the network. The caller owes a Close.
//
// Errors: Invalid with reason InvalidURI or CredentialsInvalid. They hold no secret.
func New(cfg Config) (*Host, error) {
	cfg = cfg.withDefaults()
	e, err := parseURI(cfg.URI)
	if err != nil {
		return nil, named(cfg.Name, err)
	}
	d, err := newDialer(e, cfg)
	if err != nil {
		return nil, named(cfg.Name, err)
	}
	cfg.Credentials = nil
	h := &Host{
		cfg: cfg, endpoint: e, dialer: d, hook: cfg.Hook,
		calls: make(chan struct{}, maxCalls), transfers: make(chan struct{}, maxTransfers),
	}
	if h.hook == nil {
		h.hook = noHook{}
	}
	cfg.Metrics.retain(cfg.Name)
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	h.agent = &side{host: h, slots: make(chan struct{}, maxAgentCalls), opening: make(chan struct{}, 1)}
	h.events = newEventQueue()
	h.state = State{Since: time.Now(), Err: &providers.Error{Kind: providers.Unreachable, Reason: ReasonConnecting, Host: cfg.Name, Msg: "not connected yet"}}
	return h, nil
}

// named adds the host's name to an error of this package.
func named(host string, err error) error {
	var e *providers.Error
	if !errors.As(err, &e) || e.Host != "" {
		return err
	}
	c := *e
	c.Host = host
	return &c
}

// Start connects in the background and stays connected until Close. onEvent may be nil; it must not block and must not call
// the Host: it only notes what to look at.
func (h *Host) Start(onEvent func(Event)) {
	if onEvent == nil {
		onEvent = func(Event) {}
	}
	if h.enter() {
		go func() { defer h.tasks.Done(); h.stayConnected(onEvent) }()
	}
	if h.enter() {
		go func() { defer h.tasks.Done(); h.events.deliver(h.ctx, onEvent) }()
	}
}

// Close ends all connections and calls and waits for the goroutines of this Host, which includes functions given to Call. A
// second Close only waits.
func (h *Host) Close() {
	defer h.tasks.Wait()
	h.mu.Lock()
	before := h.closed
	h.closed = true
	h.mu.Unlock()
	if before {
		return
	}
	h.cancel(errClosed)
	h.agent.drop(errClosed)
	if l := h.disconnected(classify(h.cfg.Name, "", errClosed)); l != nil {
		l.guard.fail(errClosed)
	}
	h.tasks.Wait() // no series comes back after this
	h.cfg.Metrics.release(h.cfg.Name)
}

// enter counts a goroutine for Close to wait for; false when it is too late. tasks.Done ends it.
func (h *Host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.tasks.Add(1)
	return true
}

// State returns what is known now; it never waits.
func (h *Host) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.state
	if h.main != nil {
		s.LastSeen = h.main.guard.lastSeen()
	}
	return s
}

// current returns the link for calls, or why there is none.
func (h *Host) current() (*link, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.main == nil {
		return nil, h.state.Err
	}
	if cause := h.main.guard.cause(); cause != nil {
		return nil, classify(h.cfg.Name, "", fmt.Errorf("%w: %w", libvirt.ErrInterrupted, cause))
	}
	return h.main, nil
}

// stayConnected is the only place that opens the main connection: callers never wait for an attempt (the breaker).
func (h *Host) stayConnected(onEvent func(Event)) {
	failures := 0
	for h.ctx.Err() == nil {
		l, err := h.connect()
		if err == nil {
			began := time.Now()
			onEvent(Event{Kind: Connected})
			err = h.watch(l)
			l.guard.fail(err)
			if time.Since(began) >= stableAfter {
				failures = 0
			}
		}
		if h.ctx.Err() != nil {
			return
		}
		failures++
		pause := backoff(failures, h.cfg.Limits, h.cfg.Rand())
		h.retreat(err, failures, pause)
		onEvent(Event{Kind: Disconnected})
		select {
		case <-h.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// connect opens a link under one deadline and makes it the host's main one.
func (h *Host) connect() (*link, error) {
	ctx, cancel := context.WithTimeout(h.ctx, h.cfg.Limits.Connect)
	defer cancel()
	l, err := openLink(ctx, h.dialer, h.endpoint.driver, h.events.push)
	h.cfg.Metrics.connect(h.cfg.Name, err)
	if err != nil {
		return nil, named(h.cfg.Name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		l.guard.fail(errClosed)
		return nil, classify(h.cfg.Name, "", errClosed)
	}
	h.main = l
	h.state = State{Since: time.Now(), LibvirtVersion: versionString(l.version), Connects: h.state.Connects + 1}
	h.cfg.Log.Info("connected", "transport", h.endpoint.transport, "libvirt", h.state.LibvirtVersion)
	return l, nil
}

// retreat records why there is no connection and logs it when the reason is a new one.
func (h *Host) retreat(err error, failures int, pause time.Duration) {
	h.disconnected(classify(h.cfg.Name, "", err))
	h.agent.drop(errClosed) // it goes to the same host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Attempts, h.state.NextAttempt = failures, time.Now().Add(pause)
}

// disconnected takes the main link away and returns it.
func (h *Host) disconnected(err error) *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.main
	if l != nil {
		h.state.LastSeen = l.guard.lastSeen()
		h.main = nil
	}
	before := providers.OutcomeOf(h.state.Err).Reason
	if h.state.Err == nil {
		h.state.Since = time.Now()
		before = ""
	}
	h.state.Err = err
	if reason := providers.OutcomeOf(err).Reason; reason != before && !h.closed {
		h.cfg.Log.Warn("not connected", "reason", reason, "error", err)
	}
	if !h.closed { // another Host of this name may be connected by now
		h.cfg.Metrics.disconnected(h.cfg.Name)
	}
	return l
}

// watch pings an idle link and returns why it ended. The ping takes the fifth of the daemon's request slots, so that it does
// not queue behind calls.
func (h *Host) watch(l *link) error {
	limit := h.cfg.Limits.Ping
	idle := time.NewTicker(limit)
	defer idle.Stop()
	for {
		select {
		case <-l.guard.dead():
			return fmt.Errorf("%w: %w", libvirt.ErrInterrupted, l.guard.cause())
		case <-idle.C:
		}
		if time.Since(l.guard.lastSeen()) < limit {
			continue
		}
		_, err := within(h.ctx, l, limit, nil, (*libvirt.Libvirt).ConnectGetLibVersion)
		if errors.Is(err, context.DeadlineExceeded) {
			return errSilent
		}
	}
}
