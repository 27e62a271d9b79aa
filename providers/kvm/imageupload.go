package kvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
	if err := c.clear(ctx, img.Checksum, stream.Size); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.discard(ctx, img.Checksum))
		}
	}()
	b, err := c.fill(ctx, img, stream)
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

// clear removes what an earlier upload left and makes sure that the image has room.
func (c *imageCache) clear(ctx context.Context, checksum string, size int64) error {
	unlock, err := c.h.pool.lock(ctx, c.h.spec.StoragePool)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.remove(ctx, checksum); err != nil {
		return err
	}
	free, err := c.h.poolFree(ctx)
	if err != nil {
		return err
	}
	if size > free {
		return c.h.fail(providers.Exhausted, "PoolFull", fmt.Sprintf("the image has %d bytes, but storage pool %q has only %d free", size, c.h.spec.StoragePool, free))
	}
	return nil
}

// fill uploads and verifies. The pool's lock is not held while bytes flow.
func (c *imageCache) fill(ctx context.Context, img providers.Image, stream *image.Stream) (base, error) {
	h := c.h
	doc, err := definition.RawVolume(h.p.cluster.Image(img.Checksum), max(stream.Size, 0))
	if err != nil {
		return base{}, err
	}
	vol, path, err := h.createVolume(ctx, doc)
	if err != nil {
		return base{}, err
	}
	if err := h.conn.Upload(ctx, vol, stream, stream.Size); err != nil {
		return base{}, fmt.Errorf("upload the image: %w", err)
	}
	if err := stream.Verify(); err != nil {
		return base{}, err
	}
	return c.readBack(ctx, img, stream, path)
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
