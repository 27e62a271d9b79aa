//go:build libvirt

package kvm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

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
