//go:build libvirt

package kvm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

type testHost struct{ name, uri, images string }

type testHosts []testHost

func startHosts(t *testing.T) testHosts {
	return testHosts{{"me1", "qemu+tcp://10.66.0.41/system", "/tmp/w/lab-me/hosts/me1/varlib/images"}, {"me2", "qemu+tcp://10.66.0.42/system", "/tmp/w/lab-me/hosts/me2/varlib/images"}}
}

func (hs testHosts) specs() []providers.Host {
	var out []providers.Host
	for _, h := range hs {
		out = append(out, providers.Host{Name: h.name, URI: h.uri, StoragePool: "default", Network: providers.Network{Name: "default"}, VirtType: providers.VirtTypeAuto})
	}
	return out
}

func (hs testHosts) host(name string) testHost {
	for _, h := range hs {
		if h.name == name {
			return h
		}
	}
	panic("no host " + name)
}

func (h testHost) virsh(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("virsh", append([]string{"-q", "-c", h.uri}, args...)...).CombinedOutput()
	require.NoError(t, err, "virsh %v: %s", args, out)
	return string(out)
}

func (h testHost) define(t *testing.T, xml string) {
	t.Helper()
	f := filepath.Join(t.TempDir(), "d.xml")
	require.NoError(t, os.WriteFile(f, []byte(xml), 0o600))
	h.virsh(t, "define", f)
}

func (h testHost) poolFiles(t *testing.T) []string {
	entries, err := os.ReadDir(h.images)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func (h testHost) setDown(t *testing.T, down bool) {
	state := "up"
	if down {
		state = "down"
	}
	out, err := exec.Command("ip", "-n", h.name, "link", "set", "br0", state).CombinedOutput()
	require.NoError(t, err, strings.TrimSpace(string(out)))
	if !down {
		_ = exec.Command("ip", "-n", h.name, "route", "add", "default", "via", "10.66.0.1").Run()
	}
}
