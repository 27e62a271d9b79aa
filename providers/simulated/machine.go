package simulated

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

// machine is everything on one host that carries one identity: parts of it may be missing.
type machine struct {
	id   uuid.UUID
	name string
	// tag is empty for a machine that somebody else made.
	tag  providers.Tag
	port uint16

	disk, seed, defined bool
	diskBytes           int64

	state           providers.State
	reason, message string

	// Of the running guest.
	generation  int // counts starts, so that a boot that was cut off never finishes
	booted      bool
	agentSilent bool
	noAddress   bool
	boot        *providers.BootReport
	console     []byte
	answer      Proxy
	proxy       *proxyServer
	addressSeen time.Time
	moved       int // index of the loopback candidate in use
}

// leftovers names each part, as a host's own listing would.
func (m *machine) leftovers() []string {
	var out []string
	if m.defined {
		out = append(out, "domain/"+m.name)
	}
	if m.disk {
		out = append(out, "volume/"+m.name+".qcow2")
	}
	if m.seed {
		out = append(out, "volume/"+m.name+"-seed.iso")
	}
	return out
}

func (m *machine) status(p *Provider, h *hostState) providers.Status {
	s := providers.Status{
		ID: p.providerID(h.name, m.id), Tag: m.tag, Host: h.name, State: m.state, Reason: m.reason, Message: m.message,
		ObservedAt: p.world.clock.Now(),
	}
	if !m.defined {
		s.State, s.Reason, s.Message = providers.StateIncomplete, "Incomplete", "disks without a machine"
	}
	if m.booted && !m.noAddress && m.proxy != nil {
		source := "agent"
		if m.agentSilent {
			source = "lease"
		}
		s.Addresses = []providers.Address{{IP: m.proxy.addr.Addr(), Source: source, LastSeen: m.addressSeen}}
	}
	return s
}

// start powers the machine on and lets it boot.
func (w *World) start(h *hostState, m *machine, bootTime time.Duration) {
	m.set(providers.StateRunning, "", "")
	m.generation++
	m.logf("simulated BIOS: booting %s", m.name)
	generation := m.generation
	w.after(bootTime, nil, func() {
		if m.generation != generation || m.state != providers.StateRunning {
			return
		}
		if err := m.listen(); err != nil {
			m.logf("squid: %v", err)
		}
		m.booted, m.addressSeen = true, w.clock.Now()
		m.logf("cloud-init: finished")
		w.changed(h, m)
	})
	w.changed(h, m)
}

// halt takes the machine out of service with a final or passing state.
func (w *World) halt(h *hostState, m *machine, s providers.State, reason, message string) {
	m.set(s, reason, message)
	m.generation++
	m.booted = false
	m.proxy.close()
	w.changed(h, m)
}

func (m *machine) set(s providers.State, reason, message string) {
	m.state, m.reason, m.message = s, reason, message
}

func (m *machine) logf(format string, args ...any) {
	m.console = append(m.console, fmt.Sprintf(format+"\n", args...)...)
}
