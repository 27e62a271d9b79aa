package kvm

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/pkg/cloudinit"
	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/definition"
	"github.com/proxyard/proxyard/providers/kvm/identity"
	"github.com/proxyard/proxyard/providers/kvm/seed"
)

// disks are the host paths of a machine's volumes.
type disks struct{ root, seed string }

// ensureDisks makes what is missing. Without a domain the seed is always written anew: an upload that was cut off leaves one
// that looks complete. With a domain it stays, since the guest may have it open.
func (h *host) ensureDisks(ctx context.Context, m identity.Machine, mc providers.Machine, defined bool) (disks, error) {
	base, err := h.images.ensure(ctx, m, mc.Image)
	if err != nil {
		return disks{}, err
	}
	if mc.Resources.DiskBytes < base.VirtualBytes {
		return disks{}, h.fail(providers.Invalid, "DiskTooSmall", fmt.Sprintf("resources.disk is %d bytes, but the image needs %d; ask for more", mc.Resources.DiskBytes, base.VirtualBytes))
	}
	unlock, err := h.pool.lock(ctx, h.spec.StoragePool)
	if err != nil {
		return disks{}, err
	}
	defer unlock()
	var d disks
	if d.root, err = h.ensureOverlay(ctx, m, base, mc.Resources.DiskBytes); err != nil {
		return disks{}, fmt.Errorf("root disk: %w", err)
	}
	if d.seed, err = h.ensureSeed(ctx, m, mc, defined); err != nil {
		return disks{}, fmt.Errorf("seed: %w", err)
	}
	return d, nil
}

// ensureOverlay takes the overlay that an earlier try made, or makes one. A volume of that name that is no overlay over our
// image is not ours, whatever its name says.
func (h *host) ensureOverlay(ctx context.Context, m identity.Machine, base base, size int64) (string, error) {
	name := h.p.cluster.Root(m)
	vol, path, err := h.volume(ctx, name)
	if err == nil {
		return path, h.checkOverlay(ctx, vol, base, size)
	}
	if providers.KindOf(err) != providers.NotFound {
		return "", err
	}
	doc, err := definition.Overlay{Name: name, CapacityBytes: size, BasePath: base.path, BaseFormat: base.Format}.XML()
	if err != nil {
		return "", err
	}
	if vol, path, err = h.createVolume(ctx, doc); err != nil {
		return "", err
	}
	return path, h.checkOverlay(ctx, vol, base, size)
}

// checkOverlay reads back what libvirt recorded: it accepts an overlay without backing format, or one smaller than its base,
// without a word, and the guest then does not boot.
func (h *host) checkOverlay(ctx context.Context, vol libvirt.StorageVol, base base, size int64) error {
	v, err := h.describe(ctx, vol)
	if err != nil {
		return err
	}
	if v.Format != definition.FormatQCOW2 || v.BackingPath != base.path || v.BackingFormat != base.Format || v.CapacityBytes < size {
		return h.fail(providers.Exists, reasonForeignVolume, fmt.Sprintf("volume %q is no overlay of %d bytes over image %q; it stays untouched: remove it on the host", vol.Name, size, base.path))
	}
	return nil
}

func (h *host) ensureSeed(ctx context.Context, m identity.Machine, mc providers.Machine, defined bool) (string, error) {
	name := h.p.cluster.Seed(m)
	vol, path, err := h.volume(ctx, name)
	switch {
	case err == nil && defined:
		return path, nil
	case err == nil:
		if err := h.deleteVolume(ctx, vol); err != nil {
			return "", err
		}
	case providers.KindOf(err) != providers.NotFound:
		return "", err
	}
	image, err := seed.Write(seed.Documents{
		UserData: mc.UserData, VendorData: mc.VendorData, NetworkConfig: mc.NetworkConfig,
		// The instance-id decides whether cloud-init runs: stable for the machine, new for its replacement.
		MetaData: cloudinit.MetaData(m.UUID.String(), mc.Hostname),
	})
	if err != nil {
		return "", err
	}
	return h.writeVolume(ctx, name, image)
}

// writeVolume makes a raw volume with exactly that content.
func (h *host) writeVolume(ctx context.Context, name string, content []byte) (string, error) {
	doc, err := definition.RawVolume(name, int64(len(content)))
	if err != nil {
		return "", err
	}
	vol, path, err := h.createVolume(ctx, doc)
	if err != nil {
		return "", err
	}
	return path, h.conn.Upload(ctx, vol, bytes.NewReader(content), int64(len(content)))
}

// volume looks a volume of our pool up by name.
//
// Errors: NotFound.
func (h *host) volume(ctx context.Context, name string) (vol libvirt.StorageVol, path string, err error) {
	vol, err = conn.Call(ctx, h.conn, "StorageVolLookupByName", func(l *libvirt.Libvirt) (libvirt.StorageVol, error) {
		p, err := l.StoragePoolLookupByName(h.spec.StoragePool)
		if err != nil {
			return libvirt.StorageVol{}, err
		}
		return l.StorageVolLookupByName(p, name)
	})
	if err != nil {
		return vol, "", err
	}
	path, err = h.path(ctx, vol)
	return vol, path, err
}

func (h *host) path(ctx context.Context, vol libvirt.StorageVol) (string, error) {
	return conn.Call(ctx, h.conn, "StorageVolGetPath", func(l *libvirt.Libvirt) (string, error) { return l.StorageVolGetPath(vol) })
}

func (h *host) createVolume(ctx context.Context, doc string) (libvirt.StorageVol, string, error) {
	vol, err := conn.Call(ctx, h.conn, "StorageVolCreateXML", func(l *libvirt.Libvirt) (libvirt.StorageVol, error) {
		p, err := l.StoragePoolLookupByName(h.spec.StoragePool)
		if err != nil {
			return libvirt.StorageVol{}, err
		}
		return l.StorageVolCreateXML(p, doc, 0)
	})
	if err != nil {
		return vol, "", h.retryIfHidden(ctx, err)
	}
	path, err := h.path(ctx, vol)
	return vol, path, err
}

// retryIfHidden refreshes the pool once when a name is taken that the pool did not list: libvirt does not see files that
// came without it, a create that another daemon finished among them. The next try then finds what is there.
func (h *host) retryIfHidden(ctx context.Context, err error) error {
	code, _ := conn.Code(err)
	if code != libvirt.ErrOperationInvalid && code != libvirt.ErrStorageVolExist {
		return err
	}
	if rerr := h.refreshPool(ctx, h.spec.StoragePool); rerr != nil {
		return rerr
	}
	return &providers.Error{Kind: providers.Busy, Reason: "PoolRefreshed", Host: h.spec.Name, Msg: "the pool had a file that libvirt did not know; looking again", Err: err}
}

// refreshPool makes libvirt look at the pool's files; a pool that does not exist has none.
func (h *host) refreshPool(ctx context.Context, pool string) error {
	err := conn.Do(ctx, h.conn, "StoragePoolRefresh", func(l *libvirt.Libvirt) error {
		p, err := l.StoragePoolLookupByName(pool)
		if err != nil {
			return err
		}
		return l.StoragePoolRefresh(p, 0)
	})
	if code, _ := conn.Code(err); err != nil && code == libvirt.ErrNoStoragePool {
		return nil
	}
	return err
}

func (h *host) describe(ctx context.Context, vol libvirt.StorageVol) (definition.Volume, error) {
	doc, err := conn.Call(ctx, h.conn, "StorageVolGetXMLDesc", func(l *libvirt.Libvirt) (string, error) { return l.StorageVolGetXMLDesc(vol, 0) })
	if err != nil {
		return definition.Volume{}, err
	}
	return definition.ParseVolume(doc)
}

// deleteVolume removes a volume; one that is gone is as good.
func (h *host) deleteVolume(ctx context.Context, vol libvirt.StorageVol) error {
	err := conn.Do(ctx, h.conn, "StorageVolDelete", func(l *libvirt.Libvirt) error { return l.StorageVolDelete(vol, 0) })
	if err != nil && providers.KindOf(err) == providers.NotFound {
		return nil
	}
	return err
}

// volumes lists a pool. A pool that does not exist holds nothing.
func (h *host) volumes(ctx context.Context, pool string) ([]libvirt.StorageVol, error) {
	vols, err := conn.Call(ctx, h.conn, "StoragePoolListAllVolumes", func(l *libvirt.Libvirt) ([]libvirt.StorageVol, error) {
		p, err := l.StoragePoolLookupByName(pool)
		if err != nil {
			return nil, err
		}
		vols, _, err := l.StoragePoolListAllVolumes(p, 1, 0)
		return vols, err
	})
	if code, _ := conn.Code(err); err != nil && code == libvirt.ErrNoStoragePool {
		return nil, nil
	}
	return vols, err
}

// volumesOf lists everything in a pool that carries the machine's name.
func (h *host) volumesOf(ctx context.Context, pool string, m identity.Machine) ([]libvirt.StorageVol, error) {
	all, err := h.volumes(ctx, pool)
	var ours []libvirt.StorageVol
	for _, v := range all {
		if strings.HasPrefix(v.Name, h.p.cluster.Domain(m)+"-") {
			ours = append(ours, v)
		}
	}
	return ours, err
}
