package simulated

import (
	"time"

	"github.com/proxyard/proxyard/providers"
)

// What Options stand for when they are left out.
const (
	DefaultName      = "simulated"
	DefaultClusterID = "simulated"
	// DefaultPort is squid's own port.
	DefaultPort = 3128
	// DefaultImageSize is the virtual size, in bytes, of an image of which Faults.Image says nothing: small enough for
	// every sensible disk.
	DefaultImageSize = 256 << 20
)

// Options shape a provider. The zero value is useful: everything takes no time and succeeds.
type Options struct {
	// Name of the provider and scheme of its IDs; empty means DefaultName.
	Name string
	// ClusterID of the installation. A machine whose tag has another one is Invalid. Empty means DefaultClusterID.
	ClusterID string
	// World holds the hosts. Nil means: one of its own, which Close closes too.
	World *World
	// Clock of a World of its own; nil means real time. It is ignored when World is given.
	Clock Clock
	// BootTime passes from start to address, open port and finished cloud-init.
	BootTime time.Duration
	// ImageTime passes while a host downloads an image that it has not cached. Meanwhile Create answers InProgress.
	ImageTime time.Duration
	// StopTime passes from Delete's power button to a stopped machine. Meanwhile Delete answers InProgress.
	StopTime time.Duration
	// Port on which machines proxy whose user-data names none; 0 means DefaultPort.
	Port uint16
	// Proxy is how the machines' proxies answer until Faults.Proxy says otherwise.
	Proxy Proxy
	// Capacity of every host; the zero value means 16 CPUs, 64 GiB of memory and a pool of 1 TiB.
	Capacity providers.Capacity
	// ImageSize is the virtual size of images in bytes; 0 means DefaultImageSize.
	ImageSize int64
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.ClusterID == "" {
		o.ClusterID = DefaultClusterID
	}
	if o.Port == 0 {
		o.Port = DefaultPort
	}
	if o.ImageSize == 0 {
		o.ImageSize = DefaultImageSize
	}
	if o.Capacity == (providers.Capacity{}) {
		o.Capacity = providers.Capacity{CPUs: 16, MemoryBytes: 64 << 30, StorageBytes: 1 << 40}
	}
	return o
}

// Provider is one manager's view of a World. Build it with New.
type Provider struct {
	opt       Options
	world     *World
	ownsWorld bool

	// Guarded by world.mu.
	hosts map[string]providers.Host
	rules []*Rule
	// ended is why the provider takes no more calls: closed or crashed.
	ended error
}

var (
	_ providers.Provider       = (*Provider)(nil)
	_ providers.HostSource     = (*Provider)(nil)
	_ providers.EventSource    = (*Provider)(nil)
	_ providers.GuestInspector = (*Provider)(nil)
	_ providers.ConsoleReader  = (*Provider)(nil)
)

// New builds a provider without hosts. Close it.
func New(o Options) *Provider {
	p := &Provider{opt: o.withDefaults(), world: o.World, hosts: map[string]providers.Host{}}
	if p.world == nil {
		p.world, p.ownsWorld = NewWorld(o.Clock), true
	}
	return p
}

// Name implements providers.Provider.
func (p *Provider) Name() string { return p.opt.Name }

// Close ends the provider as the end of its manager would: calls fail from now on, its background work is dropped, machines
// go on. A World of its own is closed with it.
func (p *Provider) Close() {
	p.world.end(p, &providers.Error{Kind: providers.Internal, Reason: "Closed", Msg: "the provider is closed"})
	if p.ownsWorld {
		p.world.Close()
	}
}

// Faults is the handle with which a test makes things go wrong.
func (p *Provider) Faults() *Faults { return &Faults{p: p} }
