// Package kvm makes machines as libvirt domains on remote KVM hosts. It implements providers.Provider, HostSource,
// EventSource, GuestInspector and ConsoleReader; cmd/manager builds one, and nothing else knows that it exists.
//
// The rule over all others: nothing is started, destroyed, undefined or deleted unless the domain's UUID and its metadata
// both say that it is ours. A foreign object in the way is an error and stays as it is.
package kvm

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// Name is the provider's name and the scheme of its IDs.
const Name = "kvm"

// Defaults of Options.
const (
	// DefaultPollInterval bounds how old an answer of Get can be. One poll costs a host two or three calls.
	DefaultPollInterval = 10 * time.Second
	// DefaultStopGrace is how long a guest may take to power off before it is destroyed.
	DefaultStopGrace = 30 * time.Second
)

// Options of the provider.
type Options struct {
	// ClusterID names this installation on hosts that it shares with others. Required.
	ClusterID string
	// Log gets structured records without secrets; nil discards them.
	Log *slog.Logger
	// PollInterval and StopGrace have defaults.
	PollInterval, StopGrace time.Duration
	// HTTP fetches images; nil is a client of the provider's own.
	HTTP *http.Client
	// Metrics registers the connections' metrics; nil registers none.
	Metrics prometheus.Registerer
	// Hook injects faults at the RPC boundary in tests; nil in production.
	Hook conn.Hook
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Provider is the kvm provider.
type Provider struct {
	opts    Options
	cluster identity.Cluster
	metrics *conn.Metrics
	events  broadcaster

	mu     sync.Mutex
	hosts  map[string]*host
	closed bool
	// closing holds hosts that were replaced and wind down.
	closing sync.WaitGroup
}

var (
	_ providers.Provider       = (*Provider)(nil)
	_ providers.HostSource     = (*Provider)(nil)
	_ providers.EventSource    = (*Provider)(nil)
	_ providers.GuestInspector = (*Provider)(nil)
	_ providers.ConsoleReader  = (*Provider)(nil)
)

// New builds a provider without hosts.
func New(o Options) (*Provider, error) {
	if o.ClusterID == "" {
		return nil, &providers.Error{Kind: providers.Invalid, Msg: "the kvm provider needs a cluster ID"}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.PollInterval <= 0 {
		o.PollInterval = DefaultPollInterval
	}
	if o.StopGrace <= 0 {
		o.StopGrace = DefaultStopGrace
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Provider{opts: o, cluster: identity.Cluster(o.ClusterID), hosts: map[string]*host{}, metrics: conn.NewMetrics()}
	if o.Metrics != nil {
		if err := o.Metrics.Register(p.metrics); err != nil {
			return nil, fmt.Errorf("register the libvirt metrics: %w", err)
		}
	}
	return p, nil
}

// Name is "kvm".
func (p *Provider) Name() string { return Name }

// Close ends all connections and background work. The provider cannot be used afterwards.
func (p *Provider) Close() {
	p.mu.Lock()
	hosts := p.hosts
	p.hosts, p.closed = map[string]*host{}, true
	p.mu.Unlock()
	for _, h := range hosts {
		h.close()
	}
	p.closing.Wait()
}

// SetHost adds a host or replaces what is known of it.
func (p *Provider) SetHost(_ context.Context, spec providers.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return &providers.Error{Kind: providers.Busy, Host: spec.Name, Msg: "the provider is closed"}
	}
	old := p.hosts[spec.Name]
	if old != nil && old.same(spec) {
		return nil
	}
	h, err := newHost(p, spec)
	if err != nil {
		return err
	}
	if old != nil {
		h.inherit(old)
		// In the background: closing waits for calls in flight, and the caller was promised not to wait for a host.
		p.closing.Go(old.close)
	}
	p.hosts[spec.Name] = h
	h.start() //nolint:contextcheck // the host's connection outlives this call
	return nil
}

// RemoveHost closes what is open to the host and forgets it.
func (p *Provider) RemoveHost(_ context.Context, name string) error {
	p.mu.Lock()
	h := p.hosts[name]
	delete(p.hosts, name)
	p.mu.Unlock()
	if h != nil {
		h.close()
	}
	return nil
}

// HostStatus is the latest that is known of a host.
func (p *Provider) HostStatus(_ context.Context, name string) (providers.HostStatus, error) {
	h, ok := p.host(name)
	if !ok {
		return providers.HostStatus{}, &providers.Error{Kind: providers.NotFound, Host: name, Msg: "not known to the kvm provider"}
	}
	return h.status(), nil
}

// Subscribe calls fn for every event until cancel is called.
func (p *Provider) Subscribe(fn func(providers.Event)) (cancel func()) { return p.events.subscribe(fn) }

func (p *Provider) host(name string) (*host, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.hosts[name]
	return h, ok
}

func (p *Provider) allHosts() []*host {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*host, 0, len(p.hosts))
	for _, h := range p.hosts {
		all = append(all, h)
	}
	return all
}

// locate resolves an ID to its host and machine. A host that was never handed over cannot be asked, so nothing can be told
// of what is on it: Unreachable, never NotFound.
func (p *Provider) locate(id providers.ProviderID) (*host, identity.Machine, error) {
	name, machine, err := id.Split(Name)
	if err != nil {
		return nil, identity.Machine{}, err
	}
	m, err := identity.Parse(machine)
	if err != nil {
		return nil, identity.Machine{}, err
	}
	h, ok := p.host(name)
	if !ok {
		return nil, m, &providers.Error{Kind: providers.Unreachable, Reason: "HypervisorNotFound", Host: name, Msg: "there is no Hypervisor of that name, so its machines cannot be looked at"}
	}
	return h, m, nil
}

func providerID(host string, m identity.Machine) providers.ProviderID {
	return providers.NewProviderID(Name, host, m.UUID.String())
}
