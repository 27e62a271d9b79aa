//go:build libvirt

package conn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/e2e/lab"
	"github.com/proxyard/proxyard/providers"
)

// TestRealHost runs against one libvirtd and sshd in namespaces of their own. Its parts follow each other: some break the host.
func TestRealHost(t *testing.T) {
	l, err := lab.New(t.Context(), lab.Options{Wait: true, Log: t.Logf})
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	host, err := l.Host(t.Context(), lab.HostOptions{Name: "conn1", N: 31})
	require.NoError(t, err)
	r := realHost{host}

	t.Run("transports", r.transports)
	t.Run("refusals", r.refusals)
	t.Run("errors", r.errors)
	t.Run("answers", r.answers)
	t.Run("transfers", r.transfers)
	t.Run("libvirtd killed and started", r.killed)
	t.Run("libvirtd stopped", r.stopped)
	t.Run("link down", r.linkDown)
	t.Run("nothing is left behind", r.cycles)
}

type realHost struct{ lab *lab.Host }

func (r realHost) ssh() Config {
	return Config{Name: "conn1", URI: r.lab.SSH, Credentials: map[string][]byte{CredentialSSHKey: r.lab.PrivateKey, CredentialKnownHosts: r.lab.KnownHosts}}
}

func (r realHost) tcp() Config { return Config{Name: "conn1", URI: r.lab.TCP} }

func start(t *testing.T, cfg Config) (*Host, events) {
	t.Helper()
	h, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h, started(t, h)
}

func (r realHost) transports(t *testing.T) {
	for name, cfg := range map[string]Config{"tcp": r.tcp(), "ssh": r.ssh(), "unix": {Name: "conn1", URI: "qemu+unix:///system?socket=" + r.lab.Socket}} {
		t.Run(name, func(t *testing.T) {
			h, _ := start(t, cfg)
			v, err := version(t.Context(), h)
			require.NoError(t, err)
			assert.Equal(t, versionString(v), h.State().LibvirtVersion)
			_, err = AgentCall(t.Context(), h, "ConnectGetLibVersion", (*libvirt.Libvirt).ConnectGetLibVersion)
			require.NoError(t, err)
		})
	}
}

func (r realHost) refusals(t *testing.T) {
	other, otherPEM := newKey(t)
	cfg := r.ssh()
	cfg.Credentials[CredentialSSHKey] = otherPEM
	requireReason(t, firstState(t, cfg).Err, providers.Denied, ReasonAuthenticationFailed)
	cfg = r.ssh()
	cfg.Credentials[CredentialKnownHosts] = known(r.lab.Address+":22", other)
	requireReason(t, firstState(t, cfg).Err, providers.Denied, ReasonHostKeyChanged)
	cfg = r.ssh()
	cfg.URI += "?socket=/nowhere/libvirt-sock"
	requireReason(t, firstState(t, cfg).Err, providers.Unreachable, ReasonSocketMissing)
	cfg = r.tcp()
	cfg.URI = "qemu+tcp://" + r.lab.Address + ":22/system"
	requireReason(t, firstState(t, cfg).Err, providers.Unreachable, ReasonNotLibvirt)
}

func (r realHost) errors(t *testing.T) {
	h, _ := start(t, r.tcp())
	require.ErrorIs(t, lookup(t.Context(), h), providers.NotFound)
	readOnly, _ := start(t, Config{Name: "conn1", URI: "qemu+unix:///system?socket=" + r.lab.Socket + "-ro"})
	err := Do(t.Context(), readOnly, "DomainDefineXML", func(c *libvirt.Libvirt) error {
		_, err := c.DomainDefineXML("<domain/>")
		return err
	})
	requireReason(t, err, providers.Denied, ReasonReadOnlySocket)
}

// answers takes every answer whose lengths the guard follows: none of a real daemon may be refused.
func (r realHost) answers(t *testing.T) {
	h, ev := start(t, r.tcp())
	r.expectEvent(t, ev)
	r.volume(t, h, "answers")
	checkAnswers(t, h, r.lab.Pool, r.lab.Network)
}

// checkAnswers needs a pool with a volume, an active network and a domain.
func checkAnswers(t *testing.T, h *Host, poolName, networkName string) {
	t.Helper()
	err := Do(t.Context(), h, "everything", func(c *libvirt.Libvirt) error {
		domains, _, err := c.ConnectListAllDomains(1, 0)
		require.NoError(t, err)
		require.NotEmpty(t, domains)
		_, err = c.DomainLookupByUUID(domains[0].UUID)
		require.NoError(t, err)
		_, err = c.DomainLookupByName(domains[0].Name)
		require.NoError(t, err)
		doc, err := c.DomainGetXMLDesc(domains[0], 0)
		require.NoError(t, err)
		_, err = c.DomainDefineXMLFlags(doc, 0)
		require.NoError(t, err)
		stats, err := c.ConnectGetAllDomainStats(nil, 0, 0)
		require.NoError(t, err)
		assert.NotEmpty(t, stats)
		_, err = c.DomainInterfaceAddresses(domains[0], 0, 0)
		require.Error(t, err) // not running; the refusal has a shape too
		pools, _, err := c.ConnectListAllStoragePools(1, 0)
		require.NoError(t, err)
		require.NotEmpty(t, pools)
		pool, err := c.StoragePoolLookupByName(poolName)
		require.NoError(t, err)
		_, err = c.StoragePoolGetXMLDesc(pool, 0)
		require.NoError(t, err)
		volumes, _, err := c.StoragePoolListAllVolumes(pool, 1, 0)
		require.NoError(t, err)
		require.NotEmpty(t, volumes)
		_, err = c.StorageVolGetXMLDesc(volumes[0], 0)
		require.NoError(t, err)
		_, err = c.StorageVolGetPath(volumes[0])
		require.NoError(t, err)
		_, _, err = c.ConnectListAllNetworks(1, 0)
		require.NoError(t, err)
		network, err := c.NetworkLookupByName(networkName)
		require.NoError(t, err)
		_, err = c.NetworkGetXMLDesc(network, 0)
		require.NoError(t, err)
		_, _, err = c.NetworkGetDhcpLeases(network, nil, 1, 0)
		require.NoError(t, err)
		_, err = c.ConnectGetCapabilities()
		require.NoError(t, err)
		_, err = c.ConnectGetHostname()
		return err
	})
	require.NoError(t, err)
	assert.Equal(t, 1, h.State().Connects)
}

func (r realHost) volume(t *testing.T, h *Host, name string) libvirt.StorageVol {
	t.Helper()
	vol, err := Call(t.Context(), h, "StorageVolCreateXML", func(c *libvirt.Libvirt) (libvirt.StorageVol, error) {
		pool, err := c.StoragePoolLookupByName(r.lab.Pool)
		if err != nil {
			return libvirt.StorageVol{}, err
		}
		return c.StorageVolCreateXML(pool, fmt.Sprintf("<volume><name>%s</name><capacity>1048576</capacity><target><format type='raw'/></target></volume>", name), 0)
	})
	require.NoError(t, err)
	return vol
}

func (r realHost) transfers(t *testing.T) {
	for name, cfg := range map[string]Config{"tcp": r.tcp(), "ssh": r.ssh()} {
		t.Run(name, func(t *testing.T) {
			h, _ := start(t, cfg)
			vol := r.volume(t, h, "transfer-"+name)
			data := strings.Repeat("0123456789abcdef", 10<<16)
			size := int64(len(data))
			require.ErrorIs(t, h.Upload(t.Context(), vol, strings.NewReader(data+"x"), size), ErrLonger)
			require.ErrorIs(t, h.Upload(t.Context(), vol, strings.NewReader(data[1:]), size), io.ErrUnexpectedEOF)
			require.ErrorIs(t, h.Upload(t.Context(), vol, &broken{n: 1 << 20}, size), errTest)
			require.NoError(t, h.Upload(t.Context(), vol, strings.NewReader(data), size))

			var got bytes.Buffer
			require.ErrorIs(t, h.Download(t.Context(), vol, &broken{n: 1 << 20}, 0, 0), errTest)
			require.NoError(t, h.Download(t.Context(), vol, &got, 0, size))
			assert.Equal(t, data, got.String())
			got.Reset()
			require.NoError(t, h.Download(t.Context(), vol, &got, size-5, 0))
			assert.Equal(t, "bcdef", got.String())
			_, err := version(t.Context(), h)
			require.NoError(t, err)
			assert.Equal(t, 1, h.State().Connects)
		})
	}
}

// expectEvent defines a domain with virsh and waits for the event of it.
func (r realHost) expectEvent(t *testing.T, ev events) {
	t.Helper()
	id := uuid.New()
	file := filepath.Join(t.TempDir(), "domain.xml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "<domain type='qemu'><name>%s</name><uuid>%s</uuid><memory>1024</memory><os><type>hvm</type></os></domain>", id, id), 0o600))
	_, err := r.lab.Virsh(t.Context(), "define", file)
	require.NoError(t, err)
	late := time.After(time.Second)
	for {
		select {
		case e := <-ev:
			if e == (Event{Kind: Lifecycle, UUID: id}) {
				return
			}
		case <-late:
			require.FailNow(t, "no event within 1 s")
		}
	}
}

func next(t *testing.T, ev events, kind EventKind, within time.Duration) {
	t.Helper()
	late := time.After(within)
	for {
		select {
		case e := <-ev:
			if e.Kind == kind {
				return
			}
		case <-late:
			require.FailNow(t, "no such event in time", "kind %d", kind)
		}
	}
}

func (r realHost) killed(t *testing.T) {
	h, ev := start(t, r.ssh())
	r.expectEvent(t, ev)
	vol := r.volume(t, h, "killed")
	src, feed := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- h.Upload(t.Context(), vol, src, 100<<20) }()
	_, err := feed.Write(make([]byte, 8<<20))
	require.NoError(t, err)
	require.NoError(t, r.lab.KillLibvirtd(t.Context()))
	go func() { _, _ = io.Copy(feed, endless{}) }()
	requireReason(t, <-result, providers.Unreachable, ReasonConnectionLost)
	require.NoError(t, src.Close())

	next(t, ev, Disconnected, time.Second)
	_, err = version(t.Context(), h)
	require.ErrorIs(t, err, providers.Unreachable)
	require.NoError(t, r.lab.StartLibvirtd(t.Context()))
	next(t, ev, Connected, 20*time.Second)
	_, err = version(t.Context(), h)
	require.NoError(t, err)
	r.expectEvent(t, ev)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// bounded makes a call with a deadline and checks when it ends.
func bounded(t *testing.T, h *Host) {
	t.Helper()
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	_, err := version(ctx, h)
	requireReason(t, err, providers.Unreachable, ReasonDeadlineExceeded)
	assert.LessOrEqual(t, time.Since(began), limit+100*time.Millisecond, "no call outlives its deadline")
}

func (r realHost) stopped(t *testing.T) {
	h, ev := start(t, r.ssh())
	require.NoError(t, r.lab.Pause(t.Context()))
	bounded(t, h)
	next(t, ev, Disconnected, time.Second)
	require.NoError(t, r.lab.Continue(t.Context()))
	next(t, ev, Connected, 40*time.Second)
	r.expectEvent(t, ev)
}

func (r realHost) linkDown(t *testing.T) {
	h, ev := start(t, r.ssh())
	require.NoError(t, r.lab.LinkDown(t.Context()))
	bounded(t, h)
	next(t, ev, Disconnected, time.Second)
	require.NoError(t, r.lab.LinkUp(t.Context()))
	next(t, ev, Connected, 60*time.Second)
	r.expectEvent(t, ev)
}

func (r realHost) cycles(t *testing.T) {
	run := func(n int, cfg Config) {
		for range n {
			firstState(t, cfg)
		}
	}
	missing := r.ssh()
	missing.URI += "?socket=/nowhere"
	run(2, r.ssh())
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	run(25, r.ssh())
	run(10, missing)
	run(25, r.tcp())
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+2 }, 2*time.Second, 10*time.Millisecond)
	assert.LessOrEqual(t, descriptors(t), files)
}
