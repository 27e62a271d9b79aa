//go:build libvirt

package kvm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// imageServer serves small images, and counts how often they were taken.
type imageServer struct {
	*httptest.Server
	disk  []byte
	taken atomic.Int32
}

// serveImages makes a raw disk that boots to nothing: its boot sector halts the CPU, so that a guest costs no time.
func serveImages(t *testing.T) *imageServer {
	s := &imageServer{disk: make([]byte, 1<<20)}
	copy(s.disk, []byte{0xfa, 0xf4, 0xeb, 0xfd}) // cli; hlt; jmp back
	s.disk[510], s.disk[511] = 0x55, 0xaa
	mux := http.NewServeMux()
	mux.HandleFunc("/disk.raw", func(w http.ResponseWriter, _ *http.Request) { s.taken.Add(1); _, _ = w.Write(s.disk) })
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat("<p>not found", 100)))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func sum(b []byte) string { h := sha256.Sum256(b); return "sha256:" + hex.EncodeToString(h[:]) }

func (s *imageServer) machine() providers.Machine {
	return providers.Machine{
		Hostname:  "px",
		Image:     providers.Image{URL: s.URL + "/disk.raw", Checksum: sum(s.disk)},
		Resources: providers.Resources{CPUs: 1, MemoryBytes: 64 << 20, DiskBytes: 16 << 20},
		Firmware:  providers.FirmwareBIOS,
		UserData:  []byte("#cloud-config\npackages: [squid]\n"),
	}
}

func (s *imageServer) bad() map[string]providers.Image {
	return map[string]providers.Image{
		"404":            {URL: s.URL + "/nothing", Checksum: sum([]byte("1"))},
		"wrong checksum": {URL: s.URL + "/disk.raw", Checksum: sum([]byte("2"))},
		"no image":       {URL: s.URL + "/page", Checksum: sum([]byte("3"))},
	}
}

func TestImageIsStoredOnce(t *testing.T) {
	r := newRig(t)
	r.images.disk[1000] = 1 // an image of this test's own
	r.m.Image.Checksum = sum(r.images.disk)
	other := *r
	other.m.Tag.UID = uuid.NewString()
	ids := make(chan providers.ProviderID, 2)
	for _, one := range []*rig{r, &other} {
		go func() {
			st, err := one.create(t)
			assert.NoError(t, err)
			ids <- st.ID
		}()
	}
	first, second := <-ids, <-ids
	assert.Equal(t, int32(1), r.images.taken.Load(), "two machines at once, one transfer")
	_ = other.Delete(t.Context(), second) // begins the stop; awaited below
	require.Eventually(t, func() bool {
		return other.Delete(t.Context(), second) == nil && other.Delete(t.Context(), first) == nil
	}, time.Minute, 100*time.Millisecond)
}

func TestBadImageIsTakenOnceForAllWhoWait(t *testing.T) {
	r := newRig(t)
	r.m.Image.Checksum = sum([]byte("of another image"))
	hold := make(chan struct{})
	serve := r.images.Config.Handler
	r.images.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { <-hold; serve.ServeHTTP(w, req) })
	other := *r
	other.m.Tag.UID = uuid.NewString()
	for _, one := range []*rig{r, &other} {
		require.Eventually(t, func() bool {
			_, err := one.Create(t.Context(), one.m)
			return isAny(err, providers.InProgress)
		}, time.Minute, 50*time.Millisecond)
	}
	close(hold)
	for _, one := range []*rig{r, &other} {
		_, err := one.create(t)
		require.ErrorIs(t, err, providers.ErrPermanent)
		require.ErrorContains(t, err, "image.checksum says")
		assert.Empty(t, harness{t: t}.leftovers(t, one.m))
	}
	assert.Equal(t, int32(1), r.images.taken.Load())
}

func TestHalfAnImageIsNeverUsed(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, base string){
		"cut short":    func(t *testing.T, base string) { require.NoError(t, os.Truncate(base, 4096)) },
		"without mark": func(t *testing.T, base string) { require.NoError(t, os.Remove(base+".json")) },
		"mark cut":     func(t *testing.T, base string) { require.NoError(t, os.Truncate(base+".json", 10)) },
		"gone":         func(t *testing.T, base string) { require.NoError(t, os.Remove(base)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.images.disk[1000] = name[0] // an image of this case's own
			r.images.disk[1001] = name[len(name)-1]
			r.m.Image.Checksum = sum(r.images.disk)
			st, err := r.create(t)
			require.NoError(t, err)
			r.delete(t, st.ID)
			bases, err := filepath.Glob(filepath.Join(r.host.PoolDir, "pxy-*-img-sha256-"+strings.TrimPrefix(r.m.Image.Checksum, "sha256:")[:32]))
			require.NoError(t, err)
			require.Len(t, bases, 1)
			damage(t, bases[0])
			r.host.virsh(t, "pool-refresh", "default")

			_, err = r.create(t)
			require.NoError(t, err)
			assert.Equal(t, int32(2), r.images.taken.Load(), "taken again")
			stored, err := os.ReadFile(bases[0])
			require.NoError(t, err)
			assert.Equal(t, r.m.Image.Checksum, sum(stored))
		})
	}
}

func TestImageBiggerThanThePool(t *testing.T) {
	r := newRig(t)
	r.images.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(int64(1)<<50))
		_, _ = w.Write(r.images.disk)
	})
	r.m.Image.Checksum = sum([]byte("huge"))
	_, err := r.create(t)
	require.ErrorIs(t, err, providers.Exhausted)
	require.ErrorContains(t, err, "1125899906842624 bytes, but storage pool \"default\" has only")
}

func TestImageOfUnknownSizeStopsBeforeThePoolIsFull(t *testing.T) {
	r := newRig(t)
	// A pool of its own on a small file system.
	dir := filepath.Join(r.host.PoolDir, "small")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	r.host.virsh(t, "pool-define-as", "small", "dir", "--target", "/var/lib/libvirt/images/small")
	r.host.virsh(t, "pool-start", "small")
	t.Cleanup(func() { r.host.virsh(t, "pool-destroy", "small"); r.host.virsh(t, "pool-undefine", "small") })
	require.NoError(t, r.host.MountTmpfs(t.Context(), "/var/lib/libvirt/images/small", "8M"))
	r.host.virsh(t, "pool-refresh", "small")
	spec := hosts.specs()[0]
	spec.StoragePool = "small"
	require.NoError(t, r.SetHost(t.Context(), spec))
	r.images.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush() // no Content-Length
		_, _ = w.Write(r.images.disk[:512])
		for range 64 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	r.m.Image.Checksum = sum([]byte("endless"))
	_, err := r.create(t)
	require.ErrorIs(t, err, providers.Exhausted)
	require.ErrorContains(t, err, "the image has more bytes, but storage pool \"small\" has only")
	assert.Empty(t, r.host.virsh(t, "vol-list", "small"), "nothing half made")
}
