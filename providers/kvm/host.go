package kvm

import (
	"context"
	"reflect"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// host is one libvirt host: its connections, what is known of it, and the background work for it. Hosts share nothing, so a
// dead one costs only itself.
type host struct {
	p    *Provider
	spec providers.Host
	conn *conn.Host

	images *imageCache
	// machines serialises what is done to one machine; pool what changes the pool, which libvirt refuses to do twice at once.
	machines keyedLock[identity.Machine]
	pool     keyedLock[string]
	// storage and network remember what the spec's names are on the host.
	storage handle[libvirt.StoragePool]
	network handle[libvirt.Network]

	ctx    context.Context //nolint:containedctx // the lifetime of the background work, not of a call
	cancel context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{}

	mu     sync.Mutex
	closed bool
	facts  facts
	// connected is when the present connection began.
	connected time.Time
	snap      snapshot
	// guests holds what is known of each of our machines beyond its state. forgotten holds when a machine was removed, so
	// that a poll which began before does not bring it back.
	guests    map[identity.Machine]*guest
	forgotten map[identity.Machine]time.Time
	stops     map[identity.Machine]stop
}

// newHost validates; it does no I/O.
func newHost(p *Provider, spec providers.Host) (*host, error) {
	if err := validateHost(spec); err != nil {
		return nil, err
	}
	c, err := conn.New(conn.Config{
		Name: spec.Name, URI: spec.URI, Credentials: spec.Credentials,
		Log: p.opts.Log, Metrics: p.metrics, Hook: p.opts.Hook,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &host{
		p: p, spec: spec, conn: c, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1),
		guests: map[identity.Machine]*guest{}, forgotten: map[identity.Machine]time.Time{}, stops: map[identity.Machine]stop{},
	}
	h.images = newImageCache(h)
	return h, nil
}

func validateHost(spec providers.Host) error {
	switch {
	case spec.Name == "":
		return &providers.Error{Kind: providers.Invalid, Msg: "a host needs a name"}
	case spec.StoragePool == "":
		return &providers.Error{Kind: providers.Invalid, Host: spec.Name, Reason: "StoragePoolMissing", Msg: "storagePool is empty; name a libvirt pool"}
	case (spec.Network.Name == "") == (spec.Network.Bridge == ""):
		return &providers.Error{Kind: providers.Invalid, Host: spec.Name, Reason: "NetworkInvalid", Msg: "set exactly one of network.name and network.bridge"}
	}
	return nil
}

func (h *host) same(spec providers.Host) bool { return reflect.DeepEqual(h.spec, spec) }

// inherit takes over what stays true when credentials or settings of the same host change: addresses and boots are not asked for
// anew, and a graceful stop goes on. Until the new connection is up the host does not answer.
func (h *host) inherit(old *host) {
	if h.spec.URI != old.spec.URI {
		return
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	h.facts, h.guests, h.stops, h.snap = old.facts, old.guests, old.stops, old.snap
	old.guests, old.stops = map[identity.Machine]*guest{}, map[identity.Machine]stop{}
}

func (h *host) start() {
	h.conn.Start(h.onEvent)
	h.background(h.pollLoop)
	h.background(h.guestLoop)
}

// background runs work that close waits for; after close it runs nothing.
func (h *host) background(work func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.work.Go(work)
	return true
}

func (h *host) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.conn.Close()
	h.work.Wait()
}

// onEvent only notes and wakes: a consumer that calls the host would block the connection's reader.
func (h *host) onEvent(e conn.Event) {
	switch e.Kind {
	case conn.Lifecycle:
		m := identity.Machine{UUID: e.UUID}
		h.mu.Lock()
		g, ours := h.guests[m]
		if ours {
			g.touched = true
		}
		h.mu.Unlock()
		if ours {
			h.changed(m)
		}
	case conn.Connected:
		// The daemon, or the whole host, may be another version now.
		h.mu.Lock()
		h.facts.stale, h.connected = true, h.p.opts.Now()
		h.mu.Unlock()
		h.p.events.publish(providers.Event{Host: h.spec.Name})
	case conn.Disconnected:
		h.p.events.publish(providers.Event{Host: h.spec.Name})
	}
	h.poke()
}

// poke asks for a poll soon; any number of pokes is one poll.
func (h *host) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *host) changed(m identity.Machine) {
	h.p.events.publish(providers.Event{Host: h.spec.Name, ID: providerID(h.spec.Name, m)})
}

// answers tells at once whether there is any use in asking the host.
func (h *host) answers(ctx context.Context) error {
	if err := alive(ctx); err != nil {
		return err
	}
	return h.conn.State().Err
}

// fail puts the host's name on an error that has none.
func (h *host) fail(kind providers.Kind, reason, msg string) error {
	return &providers.Error{Kind: kind, Reason: reason, Host: h.spec.Name, Msg: msg}
}
