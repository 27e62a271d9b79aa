package kvm

import (
	"context"
	"fmt"
	"slices"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// resignalEvery is how often a guest is asked again to power off: it loses the signal while it boots.
const resignalEvery = 5 * time.Second

// stop is a graceful stop under way.
type stop struct{ begun, signalled time.Time }

// Delete removes the domain, then whatever the pool has of the machine, and answers nil only when it has looked and seen
// nothing. Everything that is gone already is fine.
func (p *Provider) Delete(ctx context.Context, id providers.ProviderID) error {
	h, m, err := p.locate(id)
	if err != nil {
		return err
	}
	if err := h.answers(ctx); err != nil {
		return err
	}
	unlock, err := h.machines.lock(ctx, m)
	if err != nil {
		return err
	}
	defer unlock()
	pools := []string{h.spec.StoragePool}
	o, err := h.find(ctx, m)
	switch {
	case err == nil:
		if o.meta.Pool != "" && !slices.Contains(pools, o.meta.Pool) {
			pools = append(pools, o.meta.Pool)
		}
		if o.state.active() {
			if err := h.stopGracefully(ctx, m, o); err != nil {
				return err
			}
		}
	case providers.KindOf(err) != providers.NotFound:
		return err
	}
	for _, pool := range pools {
		if err := h.removeDisks(ctx, pool, m); err != nil {
			return err
		}
	}
	if err == nil {
		// Last, since its metadata tell the pool: a delete that is cut off before finds the disks again.
		if err := h.undefine(ctx, o.dom); err != nil {
			return err
		}
	}
	h.forget(m)
	return nil
}

// stopGracefully presses the power button, again and again, and pulls the plug when the grace is over. It never waits: the
// caller comes back.
func (h *host) stopGracefully(ctx context.Context, m identity.Machine, o owned) error {
	now := h.p.opts.Now()
	h.mu.Lock()
	s, under := h.stops[m]
	if !under {
		s = stop{begun: now}
	}
	signal := now.Sub(s.signalled) >= resignalEvery
	if signal {
		s.signalled = now
	}
	h.stops[m] = s
	h.mu.Unlock()
	// A paused or crashed guest cannot hear the button.
	if now.Sub(s.begun) >= h.p.opts.StopGrace || o.state.word().state != providers.StateRunning && o.state.word().state != providers.StateStopping {
		return h.destroy(ctx, o.dom)
	}
	if signal {
		err := conn.Do(ctx, h.conn, "DomainShutdownFlags", func(l *libvirt.Libvirt) error {
			return l.DomainShutdownFlags(o.dom, libvirt.DomainShutdownAcpiPowerBtn)
		})
		if code, _ := conn.Code(err); err != nil && code != libvirt.ErrOperationInvalid {
			return fmt.Errorf("stop the domain: %w", err)
		}
	}
	return h.fail(providers.InProgress, "Stopping", "the guest is powering off")
}

// destroy pulls the plug; a domain that is off already is fine (code 55).
func (h *host) destroy(ctx context.Context, dom libvirt.Domain) error {
	err := conn.Do(ctx, h.conn, "DomainDestroy", func(l *libvirt.Libvirt) error { return l.DomainDestroy(dom) })
	if code, _ := conn.Code(err); err == nil || code == libvirt.ErrOperationInvalid || code == libvirt.ErrNoDomain {
		return nil
	}
	return fmt.Errorf("destroy the domain: %w", err)
}

// undefineFlags are tried in turn: older hosts and other drivers refuse flags that they do not know with code 8, and none of
// the things they stand for exists there.
var undefineFlags = []libvirt.DomainUndefineFlagsValues{
	libvirt.DomainUndefineManagedSave | libvirt.DomainUndefineSnapshotsMetadata | libvirt.DomainUndefineNvram | libvirt.DomainUndefineCheckpointsMetadata,
	libvirt.DomainUndefineManagedSave | libvirt.DomainUndefineSnapshotsMetadata | libvirt.DomainUndefineNvram,
	libvirt.DomainUndefineManagedSave | libvirt.DomainUndefineSnapshotsMetadata,
	0,
}

func (h *host) undefine(ctx context.Context, dom libvirt.Domain) error {
	var err error
	for _, flags := range undefineFlags {
		err = conn.Do(ctx, h.conn, "DomainUndefineFlags", func(l *libvirt.Libvirt) error { return l.DomainUndefineFlags(dom, flags) })
		code, _ := conn.Code(err)
		if err == nil || code == libvirt.ErrNoDomain {
			return nil
		}
		if code != libvirt.ErrInvalidArg {
			break
		}
	}
	return fmt.Errorf("undefine the domain: %w", err)
}

// removeDisks deletes every volume that carries the machine's name, looks again and says whether any is left. The refresh
// makes files visible that came without libvirt's storage driver: the console log and its rotated parts.
func (h *host) removeDisks(ctx context.Context, pool string, m identity.Machine) error {
	unlock, err := h.pool.lock(ctx, pool)
	if err != nil {
		return err
	}
	defer unlock()
	if err := h.refreshPool(ctx, pool); err != nil {
		return fmt.Errorf("refresh pool %q: %w", pool, err)
	}
	vols, err := h.volumesOf(ctx, pool, m)
	if err != nil {
		return err
	}
	if err := h.noForeign(ctx, vols); err != nil {
		return err
	}
	for _, v := range vols {
		if err := h.deleteVolume(ctx, v); err != nil {
			return fmt.Errorf("delete volume %q: %w", v.Name, err)
		}
	}
	if len(vols) == 0 {
		return nil
	}
	left, err := h.volumesOf(ctx, pool, m)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return h.fail(providers.Busy, "VolumesLeft", fmt.Sprintf("volume %q is still there", left[0].Name))
	}
	return nil
}

// noForeign makes sure that a volume with the name of a root disk is one, before anything of the machine is deleted. Seeds and
// console logs show nothing of their owner: they go by their name, which holds the whole UUID.
func (h *host) noForeign(ctx context.Context, vols []libvirt.StorageVol) error {
	for _, vol := range vols {
		if !h.p.cluster.IsRoot(vol.Name) {
			continue
		}
		v, err := h.describe(ctx, vol)
		if err != nil && providers.KindOf(err) != providers.NotFound {
			return err
		}
		if err == nil && !h.isOverlay(v) {
			return h.foreignVolume(vol)
		}
	}
	return nil
}

// poolFree is how many bytes the pool has left.
func (h *host) poolFree(ctx context.Context) (int64, error) {
	free, err := inPool(ctx, h, h.spec.StoragePool, "StoragePoolGetInfo", func(l *libvirt.Libvirt, p libvirt.StoragePool) (uint64, error) {
		_, _, _, free, err := l.StoragePoolGetInfo(p)
		return free, err
	})
	return int64(free), err
}
