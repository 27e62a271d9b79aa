//go:build libvirt

package kvm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/e2e/lab"
	"github.com/proxyard/proxyard/providers"
)

// testHost is a lab host with the few acts that tests do behind the provider's back.
type testHost struct{ *lab.Host }

type testHosts []testHost

// hosts are those of this run: all tests of the package share the lab, since starting one costs seconds.
var hosts testHosts

func TestMain(m *testing.M) {
	code, err := withLab(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		code = 1
	}
	os.Exit(code) //nolint:forbidigo // TestMain's failure has no other way out
}

func withLab(run func() int) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := lab.New(ctx, lab.Options{Wait: true, Log: log.Printf})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for i, name := range []string{"kvm1", "kvm2"} {
		h, err := l.Host(ctx, lab.HostOptions{Name: name, N: 11 + i})
		if err != nil {
			return 0, err
		}
		hosts = append(hosts, testHost{h})
	}
	return run(), nil
}

// specs hands them to a provider: the first over ssh, the second over tcp.
func (hs testHosts) specs() []providers.Host {
	out := make([]providers.Host, 0, len(hs))
	for i, h := range hs {
		spec := providers.Host{Name: h.Name, URI: h.TCP, StoragePool: h.Pool, Network: providers.Network{Name: h.Network}, VirtType: providers.VirtTypeAuto}
		if i == 0 {
			spec.URI, spec.Credentials = h.SSH, map[string][]byte{"ssh-privatekey": h.PrivateKey, "known_hosts": h.KnownHosts}
		}
		out = append(out, spec)
	}
	return out
}

func (hs testHosts) host(name string) testHost {
	for _, h := range hs {
		if h.Name == name {
			return h
		}
	}
	panic("no host " + name)
}

func (h testHost) virsh(t *testing.T, args ...string) string {
	t.Helper()
	// Also in clean-ups, when the context of the test has ended.
	out, err := h.Virsh(context.WithoutCancel(t.Context()), args...)
	require.NoError(t, err)
	return out
}

func (h testHost) define(t *testing.T, xml string) {
	t.Helper()
	f := filepath.Join(t.TempDir(), "d.xml")
	require.NoError(t, os.WriteFile(f, []byte(xml), 0o600))
	h.virsh(t, "define", f)
}

func (h testHost) poolFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(h.PoolDir)
	require.NoError(t, err)
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// setDown pulls the host's cable: packets are dropped, not refused.
func (h testHost) setDown(t *testing.T, down bool) {
	t.Helper()
	if down {
		require.NoError(t, h.LinkDown(context.WithoutCancel(t.Context())))
		return
	}
	require.NoError(t, h.LinkUp(context.WithoutCancel(t.Context())))
}
