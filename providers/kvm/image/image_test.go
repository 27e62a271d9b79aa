package image_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/definition"
	"github.com/proxyard/proxyard/providers/kvm/image"
)

// qcow2 makes an image of that many bytes with a header that claims a disk of virtual bytes.
func qcow2(n int, virtual uint64, change func([]byte)) []byte {
	b := bytes.Repeat([]byte{0xa5}, n)
	clear(b[:min(n, 512)])
	copy(b, "QFI\xfb")
	binary.BigEndian.PutUint32(b[4:], 3)
	binary.BigEndian.PutUint64(b[24:], virtual)
	if change != nil {
		change(b)
	}
	return b
}

func sum256(b []byte) string { s := sha256.Sum256(b); return "sha256:" + hex.EncodeToString(s[:]) }

func TestDetect(t *testing.T) {
	raw := make([]byte, 1024)
	raw[510], raw[511] = 0x55, 0xaa
	for name, tc := range map[string]struct {
		head []byte
		want image.Header
		err  string
	}{
		"qcow2":           {qcow2(512, 1<<30, nil), image.Header{Format: definition.FormatQCOW2, VirtualBytes: 1 << 30}, ""},
		"qcow2 version 2": {qcow2(512, 1<<30, func(b []byte) { binary.BigEndian.PutUint32(b[4:], 2) }), image.Header{Format: definition.FormatQCOW2, VirtualBytes: 1 << 30}, ""},
		"raw":             {raw, image.Header{Format: definition.FormatRaw}, ""},
		"backing file":    {qcow2(512, 1<<30, func(b []byte) { binary.BigEndian.PutUint64(b[8:], 512) }), image.Header{}, "backing file"},
		"encrypted":       {qcow2(512, 1<<30, func(b []byte) { binary.BigEndian.PutUint32(b[32:], 1) }), image.Header{}, "encrypted"},
		"external data":   {qcow2(512, 1<<30, func(b []byte) { binary.BigEndian.PutUint64(b[72:], 4) }), image.Header{}, "another file"},
		"version 4":       {qcow2(512, 1<<30, func(b []byte) { binary.BigEndian.PutUint32(b[4:], 4) }), image.Header{}, "version 4"},
		"no disk":         {qcow2(512, 0, nil), image.Header{}, "claims a disk of 0 bytes"},
		"absurd disk":     {qcow2(512, 1<<63, nil), image.Header{}, "claims a disk"},
		"cut header":      {qcow2(100, 1<<30, nil), image.Header{}, "ends within its header"},
		"HTML":            {[]byte("<html>" + strings.Repeat(" ", 600)), image.Header{}, "no disk image"},
		"empty":           {nil, image.Header{}, "no disk image"},
		"gzip":            {[]byte("\x1f\x8b\x08"), image.Header{}, "packed with gzip"},
		"xz":              {[]byte("\xfd7zXZ\x00"), image.Header{}, "packed with xz"},
		"zstd":            {[]byte("\x28\xb5\x2f\xfd"), image.Header{}, "packed with zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := image.Detect(tc.head)
			if tc.err != "" {
				require.ErrorIs(t, err, providers.ErrPermanent)
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// consume opens, reads all and verifies.
func consume(client *http.Client, img providers.Image) (image.Header, int64, int64, error) {
	s, err := image.Open(context.Background(), client, img)
	if err != nil {
		return image.Header{}, 0, 0, err
	}
	defer s.Close()
	if _, err := io.Copy(io.Discard, s); err != nil {
		return s.Header, s.Size, s.Count(), err
	}
	return s.Header, s.Size, s.Count(), s.Verify()
}

func TestStream(t *testing.T) {
	good := qcow2(300_000, 1<<30, nil)
	s512 := sha512.Sum512(good)
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(good)))
		_, _ = w.Write(good)
	})
	mux.Handle("/moved", http.RedirectHandler("/good", http.StatusFound))
	mux.HandleFunc("/unknown-length", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); _, _ = w.Write(good) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(good)))
		_, _ = w.Write(good[:200_000])
	})
	mux.HandleFunc("/cut-unknown", func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = w.Write(good[:200_000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>" + strings.Repeat("not found", 100)))
	})
	mux.HandleFunc("/down", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	srv := httptest.NewServer(mux)
	defer srv.Close()

	for name, tc := range map[string]struct {
		path, sum string
		kind      error
		want      string
		reason    string
	}{
		"good":           {"/good", sum256(good), nil, "", ""},
		"sha512":         {"/good", "sha512:" + hex.EncodeToString(s512[:]), nil, "", ""},
		"redirect":       {"/moved", sum256(good), nil, "", "mirrors redirect"},
		"unknown length": {"/unknown-length", sum256(good), nil, "", "chunked answers carry no length"},
		"wrong checksum": {"/good", sum256([]byte("x")), providers.Invalid, "image.checksum says", "other bytes are permanent"},
		"bad checksum":   {"/good", "md5:00", providers.Invalid, "neither sha256", ""},
		"cut":            {"/cut", sum256(good), providers.Internal, "unexpected EOF", "retried: the next try may get all"},
		"cut, unknown":   {"/cut-unknown", sum256(good), providers.Internal, "unexpected EOF", "an aborted chunked answer is no end"},
		"404":            {"/nothing", sum256(good), providers.Invalid, "404 Not Found", ""},
		"403":            {"/secret?token=hunter2", sum256(good), providers.Invalid, "403 Forbidden", ""},
		"503":            {"/down", sum256(good), providers.Internal, "503 Service", "retried"},
		"a page":         {"/page", sum256(good), providers.Invalid, "no disk image", "a 404 page with status 200"},
	} {
		t.Run(name, func(t *testing.T) {
			head, size, count, err := consume(srv.Client(), providers.Image{URL: srv.URL + tc.path, Checksum: tc.sum})
			if tc.kind != nil {
				require.ErrorIs(t, err, tc.kind, tc.reason)
				require.ErrorContains(t, err, tc.want)
				assert.NotContains(t, err.Error(), "hunter2", "queries carry tokens")
				return
			}
			require.NoError(t, err, tc.reason)
			assert.Equal(t, int64(1<<30), head.VirtualBytes)
			assert.Equal(t, int64(len(good)), count)
			assert.Contains(t, []int64{-1, int64(len(good))}, size)
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestBytesThatComeWithEOFCount(t *testing.T) {
	good := qcow2(70_000, 1<<20, nil)
	client := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, ContentLength: int64(len(good)), Body: io.NopCloser(iotest.DataErrReader(bytes.NewReader(good)))}, nil
	})}
	_, _, count, err := consume(client, providers.Image{URL: "http://x/y", Checksum: sum256(good)})
	require.NoError(t, err)
	assert.Equal(t, int64(len(good)), count)
}

func TestUnreachableServerIsRetriedAndItsURLRedacted(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	_, _, _, err := consume(http.DefaultClient, providers.Image{URL: strings.Replace(srv.URL, "http://", "http://user:hunter2@", 1) + "/i", Checksum: sum256(nil)})
	require.ErrorIs(t, err, providers.Internal)
	assert.Equal(t, image.ReasonUnavailable, providers.OutcomeOf(err).Reason)
	assert.NotContains(t, err.Error(), "hunter2")
}
