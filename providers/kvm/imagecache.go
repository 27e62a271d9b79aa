package kvm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/definition"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// base is a complete base image in the host's pool. The exported fields are what its mark records.
type base struct {
	// Checksum is the owner's, in full: the volume's name has only a part of it.
	Checksum string
	// Bytes is the size of the file, VirtualBytes that of the disk inside.
	Bytes, VirtualBytes int64
	Format              definition.Format

	path string
}

// markLimit bounds what is read of a mark.
const markLimit = 4 << 10

// imageCache keeps one base volume a checksum in the host's pool, and uploads each image once however many machines wait.
//
// A base counts only when its mark, a small volume written after everything was verified, stands beside it and agrees with
// it. Libvirt cannot rename a volume, and one that was cut off in mid-upload looks like a good one; so a crash at any byte
// leaves a base without a mark, which the next try replaces.
type imageCache struct {
	h *host

	mu   sync.Mutex
	jobs map[string]*imageJob
}

// imageJob is an upload, running or just ended.
type imageJob struct {
	url     string
	done    bool
	err     error
	waiting map[identity.Machine]bool
}

func newImageCache(h *host) *imageCache { return &imageCache{h: h, jobs: map[string]*imageJob{}} }

// ensure returns the base, or starts its upload in the background.
//
// Errors: InProgress while it is uploaded; the error of an upload that failed, once for each machine that waited for it, after
// which its next call tries again.
func (c *imageCache) ensure(ctx context.Context, m identity.Machine, img providers.Image) (base, error) {
	if running, err := c.join(m, img); running || err != nil {
		return base{}, err
	}
	b, err := c.lookup(ctx, img.Checksum)
	if err == nil || providers.KindOf(err) != providers.NotFound {
		return b, err
	}
	return base{}, c.launch(m, img)
}

// join waits along with a running upload, and takes the result of a failed one.
func (c *imageCache) join(m identity.Machine, img providers.Image) (running bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	job, ok := c.jobs[img.Checksum]
	switch {
	case !ok:
		return false, nil
	case !job.done:
		job.waiting[m] = true
		return true, c.inProgress()
	case !job.waiting[m]:
		return false, nil // it came after the failure, and has no part in it
	}
	delete(job.waiting, m)
	if len(job.waiting) == 0 {
		delete(c.jobs, img.Checksum)
	}
	if job.url != img.URL {
		return false, nil // the fault may be the other URL's: it tries its own
	}
	return false, job.err
}

func (c *imageCache) launch(m identity.Machine, img providers.Image) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if job, ok := c.jobs[img.Checksum]; ok && !job.done {
		job.waiting[m] = true
		return c.inProgress()
	}
	job := &imageJob{url: img.URL, waiting: map[identity.Machine]bool{m: true}}
	if !c.h.background(func() { c.finish(img, job, c.upload(c.h.ctx, img)) }) {
		return c.h.fail(providers.Unreachable, "Closed", "the connection to the host is being closed")
	}
	c.jobs[img.Checksum] = job
	return c.inProgress()
}

func (c *imageCache) inProgress() error {
	return c.h.fail(providers.InProgress, "ImageDownloading", "the image is being stored on the host")
}

// finish wakes everybody who waits. An error stays for each of them; the next upload of the image replaces the record.
func (c *imageCache) finish(img providers.Image, job *imageJob, err error) {
	c.mu.Lock()
	job.done, job.err = true, err
	if err == nil {
		delete(c.jobs, img.Checksum)
	}
	waiting := slices.Collect(maps.Keys(job.waiting))
	c.mu.Unlock()
	if err != nil {
		c.h.p.opts.Log.Warn("store the image", "hypervisor", c.h.spec.Name, "error", err)
	}
	for _, m := range waiting {
		c.h.changed(m)
	}
	c.h.poke()
}

// lookup finds a complete base.
//
// Errors: NotFound, when there is none or only a part of one.
func (c *imageCache) lookup(ctx context.Context, checksum string) (base, error) {
	var b base
	mark, _, err := c.h.volume(ctx, c.h.p.cluster.ImageMark(checksum))
	if err != nil {
		return b, err
	}
	vol, path, err := c.h.volume(ctx, c.h.p.cluster.Image(checksum))
	if err != nil {
		return b, err
	}
	doc, err := c.readMark(ctx, mark)
	if err != nil {
		return b, fmt.Errorf("read the image's mark: %w", err)
	}
	v, err := c.h.describe(ctx, vol)
	if err != nil {
		return b, err
	}
	b.path = path
	if json.Unmarshal(doc, &b) != nil || b.Checksum != checksum || b.Format != v.Format || b.VirtualBytes != v.CapacityBytes || (v.PhysicalBytes != 0 && b.Bytes != v.PhysicalBytes) {
		return base{}, c.h.fail(providers.NotFound, "ImageIncomplete", fmt.Sprintf("volume %q is not what its mark says", vol.Name))
	}
	return b, nil
}

func (c *imageCache) readMark(ctx context.Context, mark libvirt.StorageVol) ([]byte, error) {
	v, err := c.h.describe(ctx, mark)
	if err != nil || v.CapacityBytes == 0 || v.CapacityBytes > markLimit {
		return nil, err // nothing, or more than a mark can be, marks nothing
	}
	var doc bytes.Buffer
	err = c.h.conn.Download(ctx, mark, &doc, 0, v.CapacityBytes)
	return doc.Bytes(), err
}

// remove deletes what there is of a base, the mark first: a base without a mark is never taken for a good one.
func (c *imageCache) remove(ctx context.Context, checksum string) error {
	for _, name := range []string{c.h.p.cluster.ImageMark(checksum), c.h.p.cluster.Image(checksum)} {
		vol, path, err := c.h.volume(ctx, name)
		if err != nil {
			if providers.KindOf(err) == providers.NotFound {
				continue
			}
			return err
		}
		if err := c.unused(ctx, path); err != nil {
			return err
		}
		if err := c.h.deleteVolume(ctx, vol); err != nil {
			return err
		}
	}
	return nil
}

// unused makes sure that no overlay, ours or foreign, stands on a file: libvirt deletes a base under running guests without a
// word. The real backing paths decide, not what we remember.
func (c *imageCache) unused(ctx context.Context, path string) error {
	vols, err := c.h.volumes(ctx, c.h.spec.StoragePool)
	if err != nil {
		return err
	}
	for _, vol := range vols {
		v, err := c.h.describe(ctx, vol)
		if err != nil {
			if providers.KindOf(err) == providers.NotFound {
				continue
			}
			return err
		}
		if v.BackingPath == path {
			return c.h.fail(providers.Internal, "ImageInUse", fmt.Sprintf("image %q has no valid mark, but volume %q stands on it; remove one of them on the host", path, vol.Name))
		}
	}
	return nil
}
