package kvm

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// apply makes a poll's result the current one and tells whose state changed.
func (h *host) apply(next snapshot, leases []lease) {
	newest := newestLeases(leases)
	now := h.p.opts.Now()
	var changed []identity.Machine
	h.mu.Lock()
	for m, at := range h.forgotten {
		if at.Before(next.at) {
			delete(h.forgotten, m)
		} else {
			delete(next.states, m)
		}
	}
	old := h.snap
	for m, s := range next.states {
		g := h.guestLocked(m)
		g.touched = false
		moved := g.book.report(sourceLease, newest[m.MAC()], now)
		if before, ok := old.states[m]; !ok || before != s || moved {
			changed = append(changed, m)
		}
	}
	for m := range old.states {
		if _, ok := next.states[m]; !ok {
			changed = append(changed, m)
		}
	}
	maps.DeleteFunc(h.guests, func(m identity.Machine, g *guest) bool {
		_, there := next.states[m]
		return !there && g.since.Before(next.at)
	})
	first := old.at.IsZero()
	hostChanged := first || text(old.storage) != text(next.storage) || text(old.network) != text(next.network)
	h.snap = next
	h.mu.Unlock()
	for _, m := range changed {
		h.changed(m)
	}
	if hostChanged {
		h.p.events.publish(providers.Event{Host: h.spec.Name})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// status is the latest that is known of the host.
func (h *host) status() providers.HostStatus {
	c := h.conn.State()
	h.mu.Lock()
	defer h.mu.Unlock()
	st := providers.HostStatus{
		Connected: c.Err, LastSeen: c.LastSeen,
		LibvirtVersion: h.facts.libvirt, HypervisorVersion: h.facts.hypervisor, HostUUID: h.facts.hostUUID, VirtType: h.facts.virtType,
		Capacity: providers.Capacity{CPUs: h.facts.cpus, MemoryBytes: h.facts.memoryBytes, StorageBytes: h.snap.poolSize, StorageFreeBytes: h.snap.poolFree},
		Machines: len(h.snap.states), ForeignMachines: h.snap.foreign, Images: h.snap.images,
	}
	st.Storage, st.Network = h.readyLocked()
	return st
}

// readyLocked tells whether machines can be made here, as far as the last poll saw.
func (h *host) readyLocked() (storage, network error) {
	if h.snap.at.IsZero() {
		notYet := h.fail(providers.Busy, "Connecting", "not looked at yet")
		return notYet, notYet
	}
	return h.snap.storage, h.snap.network
}

// preflight refuses a create on a host that could not start the machine. Libvirt finds none of this at define time.
func (h *host) preflight() error {
	h.mu.Lock()
	storage, network := h.readyLocked()
	h.mu.Unlock()
	if storage != nil {
		return storage
	}
	return network
}

// storageProblem puts a pool's error into words that name the remedy. Code 55 has five meanings; on these calls it says
// that the pool is not active.
func (h *host) storageProblem(err error) error {
	return h.problem(err, libvirt.ErrNoStoragePool, "Pool", fmt.Sprintf("storage pool %q", h.spec.StoragePool), "virsh pool-start "+h.spec.StoragePool)
}

func (h *host) networkProblem(err error) error {
	return h.problem(err, libvirt.ErrNoNetwork, "Network", fmt.Sprintf("network %q", h.spec.Network.Name), "virsh net-start "+h.spec.Network.Name)
}

func (h *host) problem(err error, missing libvirt.ErrorNumber, what, which, remedy string) error {
	if err == nil {
		return nil
	}
	switch code, _ := conn.Code(err); code {
	case missing:
		return &providers.Error{Kind: providers.NotFound, Reason: what + "NotFound", Host: h.spec.Name, Msg: which + " does not exist on the host; define it there or name another one"}
	case libvirt.ErrOperationInvalid:
		return &providers.Error{Kind: providers.Busy, Reason: what + "Inactive", Host: h.spec.Name, Msg: which + " is not active; start it on the host: " + remedy}
	}
	return err
}

// forget drops a machine that is known to be gone, so that no answer of an earlier poll brings it back.
func (h *host) forget(m identity.Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgotten[m] = h.p.opts.Now()
	delete(h.guests, m)
	delete(h.stops, m)
	// The map of a published snapshot may be read by a poll that copies it; replace, do not change.
	h.snap.states = maps.Clone(h.snap.states)
	delete(h.snap.states, m)
}

// forgetGuest drops what was known of an earlier machine of the same identity: its boot and addresses say nothing of the new one.
func (h *host) forgetGuest(m identity.Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.guests, m)
}

func normalMAC(s string) string { return strings.ToLower(s) }

// pause waits, and reports whether the context lasted that long.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}
