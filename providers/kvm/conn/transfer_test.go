package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// volume is the storage of a fake daemon: one volume that uploads fill and downloads read.
type volume struct {
	mu      sync.Mutex
	data    bytes.Buffer
	aborted bool
	// silent stops answering streams; fail ends an upload with a libvirt error after the first piece.
	silent, fail bool
	// early sends the first data of a download before the reply, as libvirtd does now and then.
	early bool
}

func (v *volume) answer(c *client, h header, body []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case h.procedure == procDownload && h.kind == typeCall:
		rest := v.data.Bytes()
		piece := func() {
			n := min(len(rest), 64<<10)
			c.frame(h.program, h.procedure, typeStream, h.serial, statusContinue, rest[:n])
			rest = rest[n:]
		}
		if v.early {
			piece()
			piece()
		}
		c.reply(h, nil)
		if v.silent {
			return true
		}
		for len(rest) > 0 {
			piece()
		}
		c.frame(h.program, h.procedure, typeStream, h.serial, statusContinue, nil)
		c.frame(h.program, h.procedure, typeStream, h.serial, statusOK, nil) // as libvirtd does: a second end
	case h.procedure == procUpload && h.kind == typeCall:
		v.data.Reset()
		c.reply(h, nil)
	case h.procedure == procUpload && h.status == statusContinue:
		v.data.Write(body)
		if v.fail {
			c.refuse(h, typeStream, libvirt.ErrSystemError, "cannot write: No space left on device")
			c.frame(h.program, h.procedure, typeStream, h.serial, statusOK, nil) // what deadlocks go-libvirt
		}
	case h.procedure == procUpload && h.status == statusOK:
		if !v.silent {
			c.frame(h.program, h.procedure, typeStream, h.serial, statusOK, nil)
		}
	case h.procedure == procUpload:
		v.aborted = true
		c.refuse(h, typeStream, libvirt.ErrInternalError, "stream aborted at client request")
	default:
		return false
	}
	return true
}

// broken is a reader and writer that fails after n bytes.
type broken struct{ n int }

func (b *broken) Read(p []byte) (int, error) {
	n := min(b.n, len(p))
	if b.n -= n; n == 0 {
		return 0, errTest
	}
	return n, nil
}

func (b *broken) Write(p []byte) (int, error) {
	n := min(b.n, len(p))
	b.n -= n
	if n < len(p) {
		return n, errTest
	}
	return n, nil
}

func TestUpload(t *testing.T) {
	const size = 10 << 20
	data := strings.Repeat("0123456789abcdef", size/16)
	tests := map[string]struct {
		reason string
		r      io.Reader
		size   int64
		volume *volume
		kind   providers.Kind
		cause  error
	}{
		"exact":             {reason: "the good case", r: strings.NewReader(data), size: size},
		"byte by byte":      {reason: "readers may give little", r: io.MultiReader(strings.NewReader(data[:7]), strings.NewReader(data[7:])), size: size},
		"nothing":           {reason: "libvirt reads length 0 as no limit", r: strings.NewReader(""), size: 0},
		"nothing announced": {reason: "but there is something", r: strings.NewReader("x"), size: 0, kind: providers.Internal, cause: ErrLonger},
		"longer":            {reason: "deadlocks go-libvirt", r: strings.NewReader(data + "x"), size: size, kind: providers.Internal, cause: ErrLonger},
		"shorter":           {reason: "go-libvirt calls it success", r: strings.NewReader(data[1:]), size: size, kind: providers.Internal, cause: io.ErrUnexpectedEOF},
		"broken":            {reason: "the download behind it fails", r: &broken{n: size / 2}, size: size, kind: providers.Internal, cause: errTest},
		"pool full":         {reason: "the host refuses in the middle", r: strings.NewReader(data), size: size, volume: &volume{fail: true}, kind: providers.Exhausted},
		"never confirmed":   {reason: "the host stops before the end", r: strings.NewReader(data), size: size, volume: &volume{silent: true}, kind: providers.Unreachable, cause: errNoProgress},
		"negative":          {reason: "cannot be", r: strings.NewReader(data), size: -2, kind: providers.Invalid},
		"unknown size":      {reason: "a server that does not announce the length", r: strings.NewReader(data), size: SizeUnknown},
		"unknown and cut":   {reason: "a wrapped EOF is no end", r: io.MultiReader(strings.NewReader(data), wrappedEOF{}), size: SizeUnknown, kind: providers.Internal, cause: io.EOF},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := tt.volume
				if v == nil {
					v = &volume{}
				}
				d := &daemon{answer: v.answer}
				h := d.host(t, nil)
				started(t, h)
				err := h.Upload(t.Context(), libvirt.StorageVol{}, tt.r, tt.size)
				if tt.kind == 0 && tt.cause == nil {
					require.NoError(t, err, tt.reason)
					want := data
					if tt.size >= 0 {
						want = data[:tt.size]
					}
					assert.Equal(t, want, v.data.String())
				} else {
					require.ErrorIs(t, err, tt.kind, "%s: %v", tt.reason, err)
					if tt.cause != nil {
						require.ErrorIs(t, err, tt.cause)
					}
				}
				_, err = version(t.Context(), h)
				require.NoError(t, err, "the next call works")
				assert.Equal(t, 1, h.State().Connects, "and the main connection was not touched")
			})
		})
	}
}

func TestDownload(t *testing.T) {
	data := strings.Repeat("0123456789abcdef", 1<<16)
	var got bytes.Buffer
	tests := map[string]struct {
		reason string
		w      io.Writer
		length int64
		volume *volume
		kind   providers.Kind
		cause  error
	}{
		"whole":        {reason: "the good case", w: &got},
		"exact":        {reason: "the length is known", w: &got, length: 1 << 20},
		"early data":   {reason: "go-libvirt takes it for the reply and loses it", w: &got, length: 1 << 20, volume: &volume{early: true}},
		"too little":   {reason: "the volume is shorter", w: &got, length: 1<<20 + 1, kind: providers.Internal, cause: io.ErrUnexpectedEOF},
		"broken":       {reason: "deadlocks go-libvirt", w: &broken{n: 100 << 10}, kind: providers.Internal, cause: errTest},
		"never served": {reason: "the host stops", w: &got, volume: &volume{silent: true}, kind: providers.Unreachable, cause: errNoProgress},
		"negative":     {reason: "cannot be", w: &got, length: -1, kind: providers.Invalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := tt.volume
				if v == nil {
					v = &volume{}
				}
				v.data.WriteString(data)
				got.Reset()
				d := &daemon{answer: v.answer}
				h := d.host(t, nil)
				started(t, h)
				err := h.Download(t.Context(), libvirt.StorageVol{}, tt.w, 0, tt.length)
				if tt.kind == 0 && tt.cause == nil {
					require.NoError(t, err, tt.reason)
					assert.Equal(t, data, got.String())
				} else {
					require.ErrorIs(t, err, tt.kind, "%s: %v", tt.reason, err)
					if tt.cause != nil {
						require.ErrorIs(t, err, tt.cause)
					}
				}
				_, err = version(t.Context(), h)
				require.NoError(t, err, "the next call works")
				assert.Equal(t, 1, h.State().Connects)
			})
		})
	}
}

// wrappedEOF is a reader that breaks with an error that looks like an end.
type wrappedEOF struct{}

func (wrappedEOF) Read([]byte) (int, error) { return 0, fmt.Errorf("connection reset: %w", io.EOF) }

// stuck is a reader that waits for its context.
type stuck struct{ ctx context.Context } //nolint:containedctx // a Read has no other way to learn when to give up

func (s stuck) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func TestTransferEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{answer: (&volume{}).answer}
		h := d.host(t, nil)
		started(t, h)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		err := h.Upload(ctx, libvirt.StorageVol{}, stuck{ctx}, 100)
		assert.Equal(t, 5*time.Second, time.Since(began))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestStalledReaderIsNotTheHostsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{answer: (&volume{}).answer}
		h := d.host(t, nil)
		started(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		requireReason(t, h.Upload(ctx, libvirt.StorageVol{}, stuck{ctx}, 100), providers.Busy, ReasonStalled)
	})
}

func TestReaderErrorsSayNothingAboutTheHost(t *testing.T) {
	for _, cause := range []error{io.EOF, io.ErrClosedPipe, context.DeadlineExceeded, libvirt.ErrInterrupted} {
		err := classify("kvm1", "StorageVolUpload", dataError{cause})
		require.ErrorIs(t, err, providers.Internal)
		require.ErrorIs(t, err, cause)
	}
	own := &providers.Error{Kind: providers.Invalid, Reason: "ChecksumMismatch"}
	require.ErrorIs(t, classify("kvm1", "x", dataError{own}), providers.Invalid, "a verdict of the caller's own stays")
}

func TestTransfersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{answer: (&volume{silent: true}).answer}
		h := d.host(t, nil)
		started(t, h)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				err := h.Download(ctx, libvirt.StorageVol{}, io.Discard, 0, 0)
				assert.Error(t, err)
				assert.True(t, errors.Is(err, providers.Busy) || errors.Is(err, providers.Unreachable), "%v", err)
			})
		}
		synctest.Wait()
		assert.Equal(t, 1+maxTransfers, d.dials())
		wg.Wait()
	})
}
