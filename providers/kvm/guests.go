package kvm

import (
	"context"
	"errors"
	"net/netip"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

const (
	// guestTick is how often guests in transition are asked: one without an address, or whose boot has not ended.
	guestTick = 3 * time.Second
	// guestSettled is how often all others are: addresses can change for life.
	guestSettled = time.Minute
	// guestsAtOnce bounds the calls in flight: guests that hang would use up the daemon's request slots.
	guestsAtOnce = 2
)

// guest is what is known of one of our machines beyond its state.
type guest struct {
	tag      providers.Tag
	verified bool // its metadata was seen to be ours
	touched  bool // an event came since the last poll
	book     addressBook
	boot     providers.BootReport
	since    time.Time // when it was first seen
	asked    time.Time
}

// bootWatch is how long a guest whose boot nobody can tell is asked often: most agents are installed while it boots.
const bootWatch = 30 * time.Minute

func (g *guest) inTransition(now time.Time) bool {
	return len(g.book) == 0 || !finalBoot(g.boot) && g.boot.Reason != reasonNoAgentChannel && now.Sub(g.since) < bootWatch
}

func finalBoot(r providers.BootReport) bool {
	return r.CloudInit == providers.CloudInitDone || r.CloudInit == providers.CloudInitDegraded || r.CloudInit == providers.CloudInitError
}

// guestLocked returns the record of a machine, made on first sight.
func (h *host) guestLocked(m identity.Machine) *guest {
	g, ok := h.guests[m]
	if !ok {
		g = &guest{book: addressBook{}, since: h.p.opts.Now()}
		h.guests[m] = g
	}
	return g
}

// guestLoop asks guests for their addresses and boot result, in the background: no reconcile waits for a guest.
func (h *host) guestLoop() {
	for pause(h.ctx, guestTick) {
		if h.conn.State().Err != nil {
			continue
		}
		var group errgroup.Group
		group.SetLimit(guestsAtOnce)
		for _, m := range h.dueGuests() {
			group.Go(func() error { h.ask(m); return nil })
		}
		_ = group.Wait() // ask records what it learns and has no error to give
	}
}

// dueGuests are running machines of ours whose turn it is.
func (h *host) dueGuests() []identity.Machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.p.opts.Now()
	var due []identity.Machine
	for m, g := range h.guests {
		running := h.snap.states[m].word().state == providers.StateRunning
		if running && (g.inTransition(now) || now.Sub(g.asked) >= guestSettled) {
			g.asked = now
			due = append(due, m)
		}
	}
	return due
}

// ask takes what the agent and the host's neighbour table say. A source that errs has no answer, which is no fault.
func (h *host) ask(m identity.Machine) {
	dom := libvirt.Domain{UUID: libvirt.UUID(m.UUID), Name: h.p.cluster.Domain(m)}
	agent, agentErr := h.interfaces(dom, m, libvirt.DomainInterfaceAddressesSrcAgent, conn.AgentCall[[]libvirt.DomainInterface])
	var arp []netip.Addr
	if len(agent) == 0 {
		arp, _ = h.interfaces(dom, m, libvirt.DomainInterfaceAddressesSrcArp, conn.Call[[]libvirt.DomainInterface])
	}
	h.mu.Lock()
	known := h.guestLocked(m).boot
	h.mu.Unlock()
	report := known
	if !finalBoot(known) { // the last word stands: an agent that hiccups later takes nothing back
		report = h.bootReport(dom, agentErr)
	}
	h.mu.Lock()
	g, ok := h.guests[m]
	var changed bool
	if ok {
		now := h.p.opts.Now()
		moved := g.book.report(sourceAgent, agent, now)
		movedARP := g.book.report(sourceARP, arp, now)
		changed = moved || movedARP || g.boot.CloudInit != report.CloudInit || g.boot.Reason != report.Reason
		g.boot = report
	}
	h.mu.Unlock()
	if changed {
		h.changed(m)
	}
}

type addressCall func(context.Context, *conn.Host, string, func(*libvirt.Libvirt) ([]libvirt.DomainInterface, error)) ([]libvirt.DomainInterface, error)

// interfaces are the addresses of our own NIC: guests report docker0, bridges and loopback as well.
func (h *host) interfaces(dom libvirt.Domain, m identity.Machine, source libvirt.DomainInterfaceAddressesSource, call addressCall) ([]netip.Addr, error) {
	rows, err := call(h.ctx, h.conn, "DomainInterfaceAddresses", func(l *libvirt.Libvirt) ([]libvirt.DomainInterface, error) {
		return l.DomainInterfaceAddresses(dom, uint32(source), 0)
	})
	if err != nil {
		return nil, err
	}
	return addressesOf(rows, m.MAC()), nil
}

// addressesOf takes the rows of one NIC by its MAC: the names that agents and ARP tables give to interfaces (vnet3, ens3) are
// those of the guest or of the host's end, and match nothing.
func addressesOf(rows []libvirt.DomainInterface, mac string) []netip.Addr {
	var ips []netip.Addr
	for _, r := range rows {
		if len(r.Hwaddr) != 1 || normalMAC(r.Hwaddr[0]) != mac {
			continue
		}
		for _, a := range r.Addrs {
			if ip, err := netip.ParseAddr(a.Addr); err == nil {
				ips = append(ips, ip)
			}
		}
	}
	return ips
}

// bootReport reads cloud-init's result through the agent, or says why nobody can tell.
func (h *host) bootReport(dom libvirt.Domain, agentErr error) providers.BootReport {
	if agentErr != nil {
		return unknownBoot(agentErr)
	}
	files := guestFiles{h: h, dom: dom}
	result, err := files.read(bootResultFile)
	if err == nil {
		return parseBootResult(result)
	}
	if !errors.Is(err, errNoSuchFile) {
		return unknownBoot(err)
	}
	_, err = files.read(bootStatusFile)
	if err != nil && !errors.Is(err, errNoSuchFile) {
		return unknownBoot(err)
	}
	if err != nil {
		return providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: "CloudInitNotRun", Message: "the guest has no trace of cloud-init"}
	}
	return providers.BootReport{CloudInit: providers.CloudInitRunning}
}

// Boot reports how far the guest's first boot got, from what the background work learned last.
func (p *Provider) Boot(ctx context.Context, id providers.ProviderID) (providers.BootReport, error) {
	h, m, err := p.locate(id)
	if err != nil {
		return providers.BootReport{}, err
	}
	if err := h.answers(ctx); err != nil {
		return providers.BootReport{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[m]
	if !ok {
		return providers.BootReport{}, h.fail(providers.NotFound, "MachineNotFound", "the machine is not on the host")
	}
	if g.boot.CloudInit == "" {
		return providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: "AgentSilent", Message: "the guest agent has not been asked yet"}, nil
	}
	return g.boot, nil
}
