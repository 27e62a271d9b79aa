package conn

import (
	"context"
	"errors"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// slowProcedures do real work on the host before they answer (start a process, delete or scan files), and have
// Limits.SlowCall. A host that died meanwhile is noticed earlier, by the ping.
var slowProcedures = map[string]bool{
	"DomainCreate": true, "DomainCreateWithFlags": true, "DomainDestroy": true, "DomainDestroyFlags": true,
	"StorageVolCreateXML": true, "StorageVolDelete": true, "StoragePoolRefresh": true, "StoragePoolCreate": true, "NetworkCreate": true,
}

// Call runs fn on the host's main connection. procedure names the libvirt procedure in errors and metrics, for example
// "DomainLookupByUUID"; fn calls it, once, and must use nothing of the client that has a stream.
//
// While the host is down Call returns the reason at once. It waits for one of four slots, at most Limits.Call, and then for the
// answer, at most Limits.Call (Limits.SlowCall for procedures that do real work). When that or ctx's deadline passes, Call
// returns and the connection is closed and replaced; the calls beside it end with reason ConnectionLost. When ctx is
// cancelled, Call returns and the connection stays.
//
// Errors: *providers.Error; see the tables in errors.go. Code tells libvirt's own number.
func Call[T any](ctx context.Context, h *Host, procedure string, fn func(*libvirt.Libvirt) (T, error)) (T, error) {
	limit := h.cfg.Limits.Call
	if slowProcedures[procedure] {
		limit = h.cfg.Limits.SlowCall
	}
	return call(ctx, lane{host: h, name: "main", slots: h.calls, wait: h.cfg.Limits.Call, limit: limit, link: func(context.Context) (*link, error) { return h.current() }}, procedure, fn)
}

// Do is Call for procedures without a result.
func Do(ctx context.Context, h *Host, procedure string, fn func(*libvirt.Libvirt) error) error {
	_, err := Call(ctx, h, procedure, func(c *libvirt.Libvirt) (struct{}, error) { return struct{}{}, fn(c) })
	return err
}

// AgentCall is Call on a connection of its own for guest-agent procedures, two at a time and at most Limits.AgentCall each: a
// silent guest holds a request slot of the daemon for seconds. The connection is opened by the first call that needs it.
func AgentCall[T any](ctx context.Context, h *Host, procedure string, fn func(*libvirt.Libvirt) (T, error)) (T, error) {
	limit := h.cfg.Limits.AgentCall
	return call(ctx, lane{host: h, name: "agent", slots: h.agent.slots, wait: limit, limit: limit, link: h.agent.current}, procedure, fn)
}

// lane is a kind of connection with its limits.
type lane struct {
	host  *Host
	name  string
	slots chan struct{}
	// wait bounds the time to get a slot, limit that of the call.
	wait, limit time.Duration
	link        func(context.Context) (*link, error)
}

func call[T any](ctx context.Context, l lane, procedure string, fn func(*libvirt.Libvirt) (T, error)) (T, error) {
	value, err := callOn(ctx, l, procedure, fn)
	err = classify(l.host.cfg.Name, procedure, err)
	l.host.cfg.Metrics.failed(l.host.cfg.Name, err)
	return value, err
}

func callOn[T any](ctx context.Context, l lane, procedure string, fn func(*libvirt.Libvirt) (T, error)) (none T, err error) {
	h, began := l.host, time.Now()
	// First without a slot: a host that is down must not make anybody wait.
	if _, err := h.current(); err != nil {
		return none, err
	}
	release, err := l.acquire(ctx)
	if err != nil {
		return none, err
	}
	link, err := l.link(ctx)
	if err == nil {
		err = h.hook.Before(ctx, h.cfg.Name, procedure)
		cutIfAsked(link, err)
	}
	if err != nil {
		release()
		return none, err
	}
	value, err := within(ctx, link, l.limit, release, fn)
	h.cfg.Metrics.answered(h.cfg.Name, procedure, time.Since(began))
	if replaced := h.hook.After(ctx, h.cfg.Name, procedure, err); replaced != nil {
		cutIfAsked(link, replaced)
		return none, replaced
	}
	return value, err
}

// cutIfAsked is the fault hook's hand on the connection.
func cutIfAsked(l *link, err error) {
	if l != nil && errors.Is(err, ErrCut) {
		l.guard.fail(ErrCut)
	}
}

// acquire takes a slot; release gives it back and ends the accounting of the call.
func (l lane) acquire(ctx context.Context) (release func(), err error) {
	if !l.host.enter() {
		return nil, errClosed
	}
	timer := time.NewTimer(l.wait)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
		l.host.cfg.Metrics.inFlight(l.host.cfg.Name, l.name, 1)
		return func() {
			l.host.cfg.Metrics.inFlight(l.host.cfg.Name, l.name, -1)
			<-l.slots
			l.host.tasks.Done()
		}, nil
	case <-ctx.Done():
		err = errBusy
		if errors.Is(context.Cause(ctx), context.Canceled) {
			err = context.Canceled
		}
	case <-l.host.ctx.Done():
		err = errClosed
	case <-timer.C:
		err = errBusy
	}
	l.host.tasks.Done()
	return nil, err
}
