package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
)

// SizeUnknown is the size of an upload that ends where its reader does. The volume grows with it; the caller counts.
const SizeUnknown = -1

// Upload sends exactly size bytes of r into vol, over a connection of its own. A nil error means that the daemon took all of
// them; the caller still reads the volume back, since libvirt answers so even when the volume was deleted meanwhile.
//
// With SizeUnknown the end of r is the end of the upload.
//
// It takes as long as it takes, but ends with ctx and when less than 64 KiB moved within Limits.Progress, whether r or the
// host is the slow one. After an error the content of vol is undefined. r must return when ctx ends: Upload does not wait for
// a Read that is under way then, and starts no new one.
//
// Errors: io.ErrUnexpectedEOF (r is shorter), ErrLonger (r has more), the error of r, each with kind Internal, and those of Call.
func (h *Host) Upload(ctx context.Context, vol libvirt.StorageVol, r io.Reader, size int64) error {
	src, length := &source{r: r, left: size}, uint64(max(size, 0))
	if size == SizeUnknown {
		src.left, src.unknown = math.MaxInt64, true
	} else if size <= 0 {
		return classify(h.cfg.Name, "StorageVolUpload", src.expectEnd(size))
	}
	return h.transfer(ctx, "StorageVolUpload", &src.gate, func(c *libvirt.Libvirt) error {
		err := c.StorageVolUpload(vol, src, 0, length, 0)
		if own := src.failure(); own != nil {
			return own
		}
		if err == nil && !src.unknown && src.moved.Load() != size {
			return fmt.Errorf("%d of %d bytes taken: %w", src.moved.Load(), size, io.ErrUnexpectedEOF)
		}
		return err
	})
}

// Download reads length bytes from offset of vol into w, over a connection of its own; length 0 means up to the end, and then
// a connection that ends cleanly too early cannot be told from the end. w must return when ctx ends.
//
// Errors: the error of w and io.ErrUnexpectedEOF (fewer than length bytes), with kind Internal, and those of Call.
func (h *Host) Download(ctx context.Context, vol libvirt.StorageVol, w io.Writer, offset, length int64) error {
	if offset < 0 || length < 0 {
		return &providers.Error{Kind: providers.Invalid, Host: h.cfg.Name, Msg: "StorageVolDownload: negative offset or length"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dst := &sink{w: w, cancel: cancel}
	return h.transfer(ctx, "StorageVolDownload", &dst.gate, func(c *libvirt.Libvirt) error {
		err := c.StorageVolDownload(vol, dst, uint64(offset), uint64(length), 0)
		if own := dst.failure(); own != nil {
			return own
		}
		if err == nil && length > 0 && dst.moved.Load() != length {
			return fmt.Errorf("%d of %d bytes came: %w", dst.moved.Load(), length, io.ErrUnexpectedEOF)
		}
		return err
	})
}

// ErrLonger means that an upload's reader has more bytes than announced.
var ErrLonger = errors.New("the data is longer than announced")

// transfer opens a connection, runs fn on it and closes it.
func (h *Host) transfer(ctx context.Context, procedure string, g *gate, fn func(*libvirt.Libvirt) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer g.shut()
	var extra *link
	l := lane{host: h, name: "transfer", slots: h.transfers, wait: h.cfg.Limits.Progress, link: func(ctx context.Context) (l *link, err error) {
		if extra, err = h.openExtra(ctx); err == nil {
			go g.watch(ctx, h.cfg.Limits.Progress, cancel)
		}
		return extra, err
	}}
	_, err := call(ctx, l, procedure, func(c *libvirt.Libvirt) (struct{}, error) {
		defer context.AfterFunc(h.ctx, func() { extra.guard.fail(errClosed) })()
		return struct{}{}, fn(c)
	})
	if extra != nil {
		extra.guard.fail(errClosed)
	}
	return err
}

// gate lets bytes pass until the transfer has returned, and counts them.
type gate struct {
	moved atomic.Int64
	// outside is set while the caller's reader or writer is at work.
	outside atomic.Bool

	mu   sync.Mutex
	done bool
	err  error
}

var errEnded = errors.New("the transfer has ended")

// shut ends the use of the caller's reader or writer.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = true
}

func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.done
}

// fail keeps the first error of the caller's reader or writer.
func (g *gate) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = dataError{err}
	}
	return g.err
}

func (g *gate) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// watch cancels a transfer that stands still, until ctx ends.
func (g *gate) watch(ctx context.Context, within time.Duration, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(within)
	defer tick.Stop()
	for before := int64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := g.moved.Load()
		if now-before < minProgress {
			if g.outside.Load() {
				cancel(errStalled)
			} else {
				cancel(errNoProgress)
			}
			return
		}
		before = now
	}
}

// source gives go-libvirt exactly as many bytes as were announced.
type source struct {
	gate
	r    io.Reader
	left int64
	// unknown says that r decides where the data ends.
	unknown bool
}

func (s *source) Read(p []byte) (int, error) {
	if !s.open() {
		return 0, errEnded
	}
	if s.left == 0 {
		return 0, s.end()
	}
	s.outside.Store(true)
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.outside.Store(false)
	s.left -= int64(n)
	s.moved.Add(int64(n))
	ended := err == io.EOF //nolint:errorlint // a wrapped EOF is an error of the reader, not its end
	switch {
	case err == nil, ended && s.left == 0:
		return n, nil
	case ended && s.unknown:
		return n, io.EOF
	case ended:
		err = fmt.Errorf("the data ends %d bytes early: %w", s.left, io.ErrUnexpectedEOF)
	}
	return n, s.fail(err)
}

// end makes sure that r has no more, before the daemon is told that the upload is complete.
func (s *source) end() error {
	var one [1]byte
	s.outside.Store(true)
	n, err := io.ReadFull(s.r, one[:])
	s.outside.Store(false)
	switch {
	case n > 0:
		return s.fail(ErrLonger)
	case err == io.EOF:
		return io.EOF
	}
	return s.fail(err)
}

// expectEnd is the whole upload of nothing; libvirt would read a length of 0 as "no limit".
func (s *source) expectEnd(size int64) error {
	if size < 0 {
		return &providers.Error{Kind: providers.Invalid, Msg: "negative size"}
	}
	if err := s.end(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// sink never fails towards go-libvirt, whose reader would block for ever: it remembers the error, ends the transfer and
// swallows the rest.
type sink struct {
	gate
	w      io.Writer
	cancel context.CancelCauseFunc
}

func (s *sink) Write(p []byte) (int, error) {
	if !s.open() || s.failure() != nil {
		return len(p), nil //nolint:nilerr // the error goes to the caller of Download, see above
	}
	s.outside.Store(true)
	n, err := s.w.Write(p)
	s.outside.Store(false)
	s.moved.Add(int64(n))
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return n, nil
	}
	s.cancel(s.fail(err))
	return len(p), nil
}
