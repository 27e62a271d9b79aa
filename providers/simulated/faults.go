package simulated

import (
	"fmt"
	"time"

	"github.com/proxyard/proxyard/providers"
)

// Faults makes things go wrong. Rules (Inject) strike the provider that the handle is of; everything else happens to the World
// and is seen by every provider on it.
type Faults struct{ p *Provider }

// onHost changes a host and says so.
func (f *Faults) onHost(name string, change func(h *hostState)) {
	_ = f.p.world.do(func() error {
		change(f.p.world.host(name))
		f.p.world.hostChanged(name)
		return nil
	})
}

// HostDown takes a host off the network, or brings it back: calls are Unreachable. Its machines run on.
func (f *Faults) HostDown(name string, down bool) {
	f.onHost(name, func(h *hostState) { h.down = down })
}

// HostDenied makes a host refuse the credentials: calls are Denied.
func (f *Faults) HostDenied(name string, denied bool) {
	f.onHost(name, func(h *hostState) { h.denied = denied })
}

// HostFull fills a host's pool: Create is Exhausted, the free storage 0.
func (f *Faults) HostFull(name string, full bool) {
	f.onHost(name, func(h *hostState) { h.full = full })
}

// HostSlow delays every exchange with the host by d, on the World's clock.
func (f *Faults) HostSlow(name string, d time.Duration) {
	f.onHost(name, func(h *hostState) { h.slow = d })
}

// HostStorage makes the pool missing or inactive with the given error; nil heals it.
func (f *Faults) HostStorage(name string, err error) {
	f.onHost(name, func(h *hostState) { h.storage = err })
}

// HostNetwork makes the network missing or inactive with the given error; nil heals it.
func (f *Faults) HostNetwork(name string, err error) {
	f.onHost(name, func(h *hostState) { h.network = err })
}

// Image says what a download from the URL gives, see ErrImageNotFound and its like; nil heals it. The virtual size is in
// bytes, 0 for Options.ImageSize. It counts from the next download on.
func (f *Faults) Image(url string, virtualSize int64, err error) {
	f.source(url, func(s *imageSource) { s.size, s.err = virtualSize, err })
}

// ImageTime says how long a download from the URL takes, instead of Options.ImageTime.
func (f *Faults) ImageTime(url string, d time.Duration) {
	f.source(url, func(s *imageSource) { s.time = &d })
}

func (f *Faults) source(url string, change func(*imageSource)) {
	_ = f.p.world.do(func() error {
		if f.p.world.images[url] == nil {
			f.p.world.images[url] = &imageSource{}
		}
		change(f.p.world.images[url])
		return nil
	})
}

// onMachine changes a machine of ours; asking for one that is not there is a mistake in the test and answers NotFound.
func (f *Faults) onMachine(id providers.ProviderID, change func(h *hostState, m *machine) error) error {
	host, uid, err := f.p.parse(id)
	if err != nil {
		return err
	}
	return f.p.world.do(func() error {
		h := f.p.world.host(host)
		m := h.machines[uid]
		if m == nil {
			return &providers.Error{Kind: providers.NotFound, Host: host, Msg: "there is no machine " + uid.String()}
		}
		return change(h, m)
	})
}

func (f *Faults) halt(id providers.ProviderID, s providers.State, reason, message string) error {
	return f.onMachine(id, func(h *hostState, m *machine) error {
		f.p.world.halt(h, m, s, reason, message)
		return nil
	})
}

// Stop powers the machine off from inside.
func (f *Faults) Stop(id providers.ProviderID) error {
	return f.halt(id, providers.StateStopped, "GuestShutdown", "the guest powered off")
}

// Crash lets the guest die.
func (f *Faults) Crash(id providers.ProviderID) error {
	return f.halt(id, providers.StateFailed, "Crashed", "the guest crashed")
}

// IOError pauses the machine as a full pool does; Create resumes it once the pool has room.
func (f *Faults) IOError(id providers.ProviderID) error {
	return f.halt(id, providers.StateFailed, "DiskIOError", "paused after a disk I/O error: is the storage pool full?")
}

// Pause pauses the machine as an administrator would.
func (f *Faults) Pause(id providers.ProviderID) error {
	return f.halt(id, providers.StatePaused, "PausedByUser", "paused by an administrator")
}

// Vanish removes the machine behind the provider's back, disks included.
func (f *Faults) Vanish(id providers.ProviderID) error {
	return f.onMachine(id, func(h *hostState, m *machine) error {
		f.p.world.halt(h, m, providers.StateStopped, "", "")
		delete(h.machines, m.id)
		return nil
	})
}

// MoveAddress gives the machine another address, as a new lease does. Its proxy listens there only.
func (f *Faults) MoveAddress(id providers.ProviderID) error {
	return f.onMachine(id, func(h *hostState, m *machine) error {
		if !m.booted {
			return fmt.Errorf("machine %q has not booted", m.name)
		}
		m.moved++
		f.p.world.changed(h, m)
		return m.listen()
	})
}

// NoAddress hides the machine's address, as a missing lease with a silent agent does; the proxy goes on.
func (f *Faults) NoAddress(id providers.ProviderID, none bool) error {
	return f.onMachine(id, func(h *hostState, m *machine) error {
		m.noAddress = none
		f.p.world.changed(h, m)
		return nil
	})
}

// AgentSilent takes the guest agent away: Boot is unknown, addresses come from the lease.
func (f *Faults) AgentSilent(id providers.ProviderID, silent bool) error {
	return f.onMachine(id, func(h *hostState, m *machine) error {
		m.agentSilent = silent
		f.p.world.changed(h, m)
		return nil
	})
}

// Boot sets what the guest says of its first boot.
func (f *Faults) Boot(id providers.ProviderID, r providers.BootReport) error {
	return f.onMachine(id, func(h *hostState, m *machine) error {
		m.boot = &r
		f.p.world.changed(h, m)
		return nil
	})
}

// Console appends to the serial console's log.
func (f *Faults) Console(id providers.ProviderID, text string) error {
	return f.onMachine(id, func(_ *hostState, m *machine) error {
		m.console = append(m.console, text...)
		return nil
	})
}

// Proxy changes how the machine's proxy answers, from the next request on. Nobody is told: that is what probes are for.
func (f *Faults) Proxy(id providers.ProviderID, a Proxy) error {
	return f.onMachine(id, func(_ *hostState, m *machine) error {
		was := m.answer
		m.answer = a
		if !m.booted {
			return nil
		}
		m.proxy.answer.Store(&a)
		if (was.Mode == Refuse) != (a.Mode == Refuse) {
			return m.listen()
		}
		return nil
	})
}
