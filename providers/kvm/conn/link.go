package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
)

// link is one connection to a daemon: one socket, one client object. It is never reopened and never told to disconnect;
// what is suspect is closed and replaced.
type link struct {
	client  *libvirt.Libvirt
	guard   *guard
	version uint64
}

// oldestLibvirt is the oldest release that the calls of providers/kvm are known to work with (Ubuntu 20.04's): 6.0.0.
const oldestLibvirt = 6_000_000

// given is a socket.Dialer for a connection that exists already.
type given struct{ net.Conn }

func (g given) Dial() (net.Conn, error) { return g.Conn, nil }

// openLink dials, opens the driver and asks for the version, all within ctx. onEvent, if not nil, gets the UUID of every
// domain that something happened to; it must not block.
func openLink(ctx context.Context, d dialer, driver string, onEvent func(libvirt.UUID)) (*link, error) {
	raw, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	g := newGuard(raw, onEvent)
	l := &link{client: libvirt.NewWithDialer(given{g}), guard: g}
	l.version, err = within(ctx, l, 0, nil, func(c *libvirt.Libvirt) (uint64, error) { return open(c, driver, onEvent != nil) })
	if err == nil && l.version < oldestLibvirt {
		err = &providers.Error{
			Kind: providers.Unreachable, Reason: ReasonLibvirtTooOld,
			Msg: fmt.Sprintf("libvirt %s is too old; %s or newer is needed", versionString(l.version), versionString(oldestLibvirt)),
		}
	}
	if err != nil {
		g.fail(err)
		return nil, openError(ctx, err)
	}
	g.opened()
	return l, nil
}

func open(c *libvirt.Libvirt, driver string, events bool) (uint64, error) {
	if err := c.ConnectToURI(libvirt.ConnectURI(driver)); err != nil {
		return 0, err
	}
	if events {
		// The registration is ours alone: the guard takes the events. A driver without events is polled.
		_, err := c.ConnectDomainEventCallbackRegisterAny(int32(libvirt.DomainEventIDLifecycle), nil)
		if _, refused := Code(err); err != nil && !refused {
			return 0, err
		}
	}
	return c.ConnectGetLibVersion()
}

// openError classifies a failure after the socket was open.
func openError(ctx context.Context, err error) error {
	const step = "open libvirt"
	if _, refused := Code(err); !refused && context.Cause(ctx) != nil {
		return dialError(step, orCause(ctx, err))
	}
	err = classify("", step, err)
	var e *providers.Error
	if _, refused := Code(err); !refused && errors.As(err, &e) && e.Kind == providers.Internal {
		e.Kind, e.Reason = providers.Unreachable, ReasonNotLibvirt
	}
	return err
}

// within runs fn on the link until ctx ends, limit is over (0: none) or the link dies. release, if not nil, runs when fn has
// returned, which is later than within in those cases: a libvirt call ends when the socket does, other work of fn may not.
//
// A deadline closes the link. A cancelled ctx says nothing about the host, so that call goes on unattended up to limit.
func within[T any](ctx context.Context, l *link, limit time.Duration, release func(), fn func(*libvirt.Libvirt) (T, error)) (T, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	done := make(chan outcome[T], 1)
	go l.attempt(limit, release, func() {
		o := outcome[T]{err: errPanicked}
		defer func() { done <- o }()
		o.value, o.err = fn(l.client)
	})
	var none T
	select {
	case o := <-done:
		return o.value, lost(ctx, l, o.err)
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			l.guard.fail(errExpired)
		}
		return none, context.Cause(ctx)
	case <-l.guard.dead():
	}
	// The call may have been answered just before the end.
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case o := <-done:
		return o.value, lost(ctx, l, o.err)
	case <-grace.C:
		return none, lost(ctx, l, libvirt.ErrInterrupted)
	}
}

type outcome[T any] struct {
	value T
	err   error
}

// attempt runs fn under a limit that holds even when nobody waits for it any more. go-libvirt's decoder may panic on what a
// hostile peer sends; that costs the link.
func (l *link) attempt(limit time.Duration, release, fn func()) {
	if release != nil {
		defer release()
	}
	if limit > 0 {
		late := time.AfterFunc(limit+closeGrace, func() { l.guard.fail(errExpired) })
		defer late.Stop()
	}
	defer func() {
		if p := recover(); p != nil {
			l.guard.fail(fmt.Errorf("%w: an answer that cannot be decoded: %v", errNotLibvirt, p))
		}
	}()
	fn()
}

// closeGrace is how long a call may take to notice that its socket is closed.
const closeGrace = 50 * time.Millisecond

// lost adds the reason why the link ended to go-libvirt's words for it. Of calls that expire together, each has its own end
// of ctx for a reason.
func lost(ctx context.Context, l *link, err error) error {
	cause := l.guard.cause()
	if err == nil || cause == nil {
		return err
	}
	if _, answered := Code(err); answered {
		return err
	}
	if own := context.Cause(ctx); own != nil {
		return own
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// versionString renders libvirt's number: major*1,000,000 + minor*1,000 + release.
func versionString(v uint64) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1_000%1_000, v%1_000)
}
