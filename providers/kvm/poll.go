package kvm

import (
	"context"
	"net/netip"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

const (
	// pokeInterval is the least time between two polls, however many events a host sends.
	pokeInterval = 500 * time.Millisecond
	// storageEvery is how many polls go by between two looks at the pool, which change slowly and cost the host more.
	storageEvery = 3
	// pollTimeout bounds one poll.
	pollTimeout = 15 * time.Second
)

// snapshot is what one poll saw. Its cost is two calls, and two more on the storage tick, whatever the number of domains.
type snapshot struct {
	at      time.Time
	states  map[identity.Machine]domainState
	foreign int
	images  int

	storage, network   error
	poolSize, poolFree int64
	storageAt          time.Time
}

// pollLoop looks at the host at its interval and when somebody pokes.
func (h *host) pollLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	for round := 0; ; round++ {
		select {
		case <-h.ctx.Done():
			return
		case <-timer.C:
		case <-h.wake:
			if wait := pokeInterval - time.Since(last); wait > 0 && !pause(h.ctx, wait) {
				return
			}
			drain(h.wake)
		}
		last = time.Now()
		if h.conn.State().Err == nil {
			h.poll(round)
		}
		timer.Reset(h.p.opts.PollInterval)
	}
}

func (h *host) poll(round int) {
	ctx, cancel := context.WithTimeout(h.ctx, pollTimeout)
	defer cancel()
	h.mu.Lock()
	known, next := h.facts.known(), h.snap
	h.mu.Unlock()
	if !known {
		f, err := h.learn(ctx)
		if err != nil {
			h.p.opts.Log.Warn("read the host's capabilities", "hypervisor", h.spec.Name, "error", err)
			return
		}
		h.mu.Lock()
		h.facts = f
		h.mu.Unlock()
	}
	begun := h.p.opts.Now()
	if err := h.pollDomains(ctx, &next); err != nil {
		h.p.opts.Log.Debug("poll", "hypervisor", h.spec.Name, "error", err)
		return
	}
	leases := h.pollNetwork(ctx, &next)
	if round%storageEvery == 0 || next.storageAt.IsZero() || next.storage != nil {
		h.pollStorage(ctx, &next)
	}
	next.at = begun
	h.apply(next, leases)
}

// pollDomains is one call for all domains, ours and foreign. NOWAIT keeps one stuck domain from holding up the host.
func (h *host) pollDomains(ctx context.Context, next *snapshot) error {
	stats, err := conn.Call(ctx, h.conn, "ConnectGetAllDomainStats", func(l *libvirt.Libvirt) ([]libvirt.DomainStatsRecord, error) {
		return l.ConnectGetAllDomainStats(nil, uint32(libvirt.DomainStatsState), uint32(libvirt.ConnectGetAllDomainsStatsNowait))
	})
	if err != nil {
		return err
	}
	next.states, next.foreign = map[identity.Machine]domainState{}, 0
	for _, s := range stats {
		m := identity.Machine{UUID: [16]byte(s.Dom.UUID)}
		if s.Dom.Name != h.p.cluster.Domain(m) {
			next.foreign++
			continue
		}
		next.states[m] = statOf(s.Params)
	}
	return nil
}

func statOf(params []libvirt.TypedParam) domainState {
	var s domainState
	for _, p := range params {
		v, _ := p.Value.I.(int32)
		switch p.Field {
		case "state.state":
			s.state = libvirt.DomainState(v)
		case "state.reason":
			s.reason = v
		}
	}
	return s
}

// pollNetwork is one call for the leases of the network, which also tells whether it is there. A bridge knows no leases, and
// libvirt has no call that tells whether it exists: the start of a machine does.
func (h *host) pollNetwork(ctx context.Context, next *snapshot) []lease {
	if h.spec.Network.Name == "" {
		next.network = nil
		return nil
	}
	rows, err := conn.Call(ctx, h.conn, "NetworkGetDhcpLeases", func(l *libvirt.Libvirt) ([]libvirt.NetworkDhcpLease, error) {
		n, err := h.network.get(func() (libvirt.Network, error) { return l.NetworkLookupByName(h.spec.Network.Name) })
		if err != nil {
			return nil, err
		}
		rows, _, err := l.NetworkGetDhcpLeases(n, nil, 1, 0)
		return rows, h.network.keep(err)
	})
	if err != nil && providers.KindOf(err) == providers.Unreachable {
		return nil
	}
	next.network = h.networkProblem(err)
	var leases []lease
	for _, r := range rows {
		ip, perr := netip.ParseAddr(r.Ipaddr)
		if perr == nil && len(r.Mac) == 1 {
			leases = append(leases, lease{mac: normalMAC(r.Mac[0]), ip: ip, expiry: r.Expirytime})
		}
	}
	return leases
}

// pollStorage is one look at the pool: its state and size, and how many images it holds.
func (h *host) pollStorage(ctx context.Context, next *snapshot) {
	// Whoever changes the pool holds libvirt's own lock on it: the look would wait behind it and time out, for nothing.
	unlock, free := h.pool.tryLock(h.spec.StoragePool)
	if !free {
		return
	}
	defer unlock()
	type pool struct {
		size, free uint64
		vols       []libvirt.StorageVol
	}
	got, err := conn.Call(ctx, h.conn, "StoragePoolListAllVolumes", func(l *libvirt.Libvirt) (pool, error) {
		p, err := h.storage.get(func() (libvirt.StoragePool, error) { return l.StoragePoolLookupByName(h.spec.StoragePool) })
		if err != nil {
			return pool{}, err
		}
		var r pool
		if _, r.size, _, r.free, err = l.StoragePoolGetInfo(p); err != nil {
			return pool{}, h.storage.keep(err)
		}
		r.vols, _, err = l.StoragePoolListAllVolumes(p, 1, 0)
		return r, h.storage.keep(err)
	})
	if err != nil && providers.KindOf(err) == providers.Unreachable {
		return
	}
	next.storage, next.storageAt = h.storageProblem(err), h.p.opts.Now()
	if err != nil {
		return
	}
	next.poolSize, next.poolFree, next.images = int64(got.size), int64(got.free), 0
	for _, v := range got.vols {
		if h.p.cluster.IsImageMark(v.Name) {
			next.images++
		}
	}
}
