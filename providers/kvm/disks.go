package kvm

import (
	"bytes"
	"context"
	"fmt"
	pathpkg "path"
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
	if !h.isOverlay(v) {
		return h.foreignVolume(vol)
	}
	if v.BackingPath != base.path || v.BackingFormat != base.Format || v.CapacityBytes < size {
		return h.fail(providers.Internal, "OverlayMismatch", fmt.Sprintf("overlay %q is not one of %d bytes over image %q; delete and recreate the Proxy", vol.Name, size, base.path))
	}
	return nil
}

// isOverlay tells our root disks from what merely has the name of one: ours stand on a base image of ours.
func (h *host) isOverlay(v definition.Volume) bool {
	return v.Format == definition.FormatQCOW2 && h.p.cluster.IsImage(pathpkg.Base(v.BackingPath))
}

func (h *host) foreignVolume(vol libvirt.StorageVol) error {
	return h.fail(providers.Exists, reasonForeignVolume, fmt.Sprintf("volume %q has the name of a root disk but is no overlay over an image of ours; it stays untouched: rename or remove it on the host", vol.Name))
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

// inPool runs fn with a pool of the host. A pool that libvirt does not know may have been undefined with all its files in place,
// so what it holds is unknown: that is Busy, never "not there".
func inPool[T any](ctx context.Context, h *host, pool, procedure string, fn func(*libvirt.Libvirt, libvirt.StoragePool) (T, error)) (T, error) {
	out, err := conn.Call(ctx, h.conn, procedure, func(l *libvirt.Libvirt) (T, error) {
		p, err := l.StoragePoolLookupByName(pool)
		if err != nil {
			var none T
			return none, err
		}
		return fn(l, p)
	})
	if code, _ := conn.Code(err); err != nil && code == libvirt.ErrNoStoragePool {
		err = h.fail(providers.Busy, reasonPoolNotFound, fmt.Sprintf("storage pool %q is not known on the host, so its volumes cannot be told; define it again", pool))
	}
	return out, err
}

// volume looks a volume of our pool up by name.
//
// Errors: NotFound.
func (h *host) volume(ctx context.Context, name string) (vol libvirt.StorageVol, path string, err error) {
	vol, err = inPool(ctx, h, h.spec.StoragePool, "StorageVolLookupByName", func(l *libvirt.Libvirt, p libvirt.StoragePool) (libvirt.StorageVol, error) {
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
	vol, err := inPool(ctx, h, h.spec.StoragePool, "StorageVolCreateXML", func(l *libvirt.Libvirt, p libvirt.StoragePool) (libvirt.StorageVol, error) {
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

// refreshPool makes libvirt look at the pool's files.
func (h *host) refreshPool(ctx context.Context, pool string) error {
	_, err := inPool(ctx, h, pool, "StoragePoolRefresh", func(l *libvirt.Libvirt, p libvirt.StoragePool) (struct{}, error) {
		return struct{}{}, l.StoragePoolRefresh(p, 0)
	})
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

// volumes lists a pool.
func (h *host) volumes(ctx context.Context, pool string) ([]libvirt.StorageVol, error) {
	return inPool(ctx, h, pool, "StoragePoolListAllVolumes", func(l *libvirt.Libvirt, p libvirt.StoragePool) ([]libvirt.StorageVol, error) {
		vols, _, err := l.StoragePoolListAllVolumes(p, 1, 0)
		return vols, err
	})
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
