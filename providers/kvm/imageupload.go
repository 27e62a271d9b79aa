package kvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/definition"
	"github.com/proxyard/proxyard/providers/kvm/image"
)

// cleanupTimeout bounds the removal of a part after an upload failed, when the upload's own context may have ended.
const cleanupTimeout = 20 * time.Second

// upload streams an image from its URL into the pool, verifies it and marks it complete. What is not verified is removed.
func (c *imageCache) upload(ctx context.Context, img providers.Image) (err error) {
	h := c.h
	stream, err := image.Open(ctx, h.p.opts.HTTP, img)
	if err != nil {
		return err
	}
	defer stream.Close()
	h.p.opts.Log.Info("storing image", "hypervisor", h.spec.Name, "checksum", img.Checksum, "bytes", stream.Size)
	room, err := c.clear(ctx, img.Checksum, stream.Size)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.discard(ctx, img.Checksum))
		}
	}()
	b, err := c.fill(ctx, img, stream, room)
	if err != nil {
		return err
	}
	mark, err := json.Marshal(b)
	if err != nil {
		return err
	}
	unlock, err := h.pool.lock(ctx, h.spec.StoragePool)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = h.writeVolume(ctx, h.p.cluster.ImageMark(img.Checksum), mark)
	return err
}

// clear removes what an earlier upload left, and makes sure that the image has room as far as its size is known.
func (c *imageCache) clear(ctx context.Context, checksum string, size int64) (room int64, err error) {
	unlock, err := c.h.pool.lock(ctx, c.h.spec.StoragePool)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := c.remove(ctx, checksum); err != nil {
		return 0, err
	}
	if room, err = c.h.poolFree(ctx); err != nil {
		return 0, err
	}
	if size > room {
		return 0, c.poolFull(fmt.Sprintf("%d", size), room)
	}
	return room, nil
}

func (c *imageCache) poolFull(size string, room int64) error {
	return c.h.fail(providers.Exhausted, "PoolFull", fmt.Sprintf("the image has %s bytes, but storage pool %q has only %d free", size, c.h.spec.StoragePool, room))
}

// bounded ends a stream of unknown size before it fills the pool, which would pause every guest that writes to it.
type bounded struct {
	io.Reader
	left int64
	full error
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.full
	}
	return n, err
}

// fill uploads and verifies. The pool's lock is not held while bytes flow.
func (c *imageCache) fill(ctx context.Context, img providers.Image, stream *image.Stream, room int64) (base, error) {
	doc, err := definition.RawVolume(c.h.p.cluster.Image(img.Checksum), max(stream.Size, 0))
	if err != nil {
		return base{}, err
	}
	vol, path, err := c.createLocked(ctx, doc)
	if err != nil {
		return base{}, err
	}
	limited := &bounded{Reader: stream, left: room, full: c.poolFull("more", room)}
	if err := c.h.conn.Upload(ctx, vol, limited, stream.Size); err != nil {
		if limited.left < 0 {
			return base{}, limited.full
		}
		return base{}, fmt.Errorf("upload the image: %w", err)
	}
	if err := stream.Verify(); err != nil {
		return base{}, err
	}
	return c.readBack(ctx, img, stream, path)
}

func (c *imageCache) createLocked(ctx context.Context, doc string) (libvirt.StorageVol, string, error) {
	unlock, err := c.h.pool.lock(ctx, c.h.spec.StoragePool)
	if err != nil {
		return libvirt.StorageVol{}, "", err
	}
	defer unlock()
	return c.h.createVolume(ctx, doc)
}

// readBack compares what libvirt has with what was sent. Libvirt reports success for an upload that ended early, and for one
// whose volume was deleted meanwhile.
func (c *imageCache) readBack(ctx context.Context, img providers.Image, stream *image.Stream, path string) (base, error) {
	vol, _, err := c.h.volume(ctx, c.h.p.cluster.Image(img.Checksum))
	if err != nil {
		return base{}, fmt.Errorf("read the image back: %w", err)
	}
	v, err := c.h.describe(ctx, vol)
	if err != nil {
		return base{}, fmt.Errorf("read the image back: %w", err)
	}
	b := base{Checksum: img.Checksum, Bytes: stream.Count(), Format: stream.Header.Format, VirtualBytes: stream.Header.VirtualBytes, path: path}
	if b.Format == definition.FormatRaw {
		b.VirtualBytes = b.Bytes
	}
	if v.Format != b.Format || v.CapacityBytes != b.VirtualBytes || (v.PhysicalBytes != 0 && v.PhysicalBytes != b.Bytes) {
		return base{}, c.h.fail(providers.Internal, "ImageReadBack", fmt.Sprintf("sent %d bytes of %s with a disk of %d, but the host has %d bytes of %s with a disk of %d",
			b.Bytes, b.Format, b.VirtualBytes, v.PhysicalBytes, v.Format, v.CapacityBytes))
	}
	return b, nil
}

// discard removes a part, also when the upload was cancelled.
func (c *imageCache) discard(ctx context.Context, checksum string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	unlock, err := c.h.pool.lock(ctx, c.h.spec.StoragePool)
	if err != nil {
		return err
	}
	defer unlock()
	return c.remove(ctx, checksum)
}
