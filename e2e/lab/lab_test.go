//go:build lab

package lab

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test program be the process that is killed in the middle of a lab.
func TestMain(m *testing.M) {
	if dir := os.Getenv("LAB_TEST_HOLD"); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

func hold(dir string) {
	ctx := context.Background()
	l, err := New(ctx, Options{Dir: dir})
	if err == nil {
		_, err = l.Host(ctx, HostOptions{Name: "kvm1", N: 11})
	}
	if err != nil {
		_, _ = os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("up\n")
	select {} // until killed
}

func TestTwoHosts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	l, err := New(ctx, Options{Dir: dir, Wait: true, Log: t.Logf})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })

	_, err = New(ctx, Options{Dir: dir})
	require.ErrorIs(t, err, errHeld)
	require.ErrorContains(t, err, dir, "a second lab says who holds the first")

	require.NoError(t, l.Serve(ctx))
	assert.Equal(t, "204 ", get(t, ProbeURL))
	assert.True(t, strings.HasPrefix(get(t, aptURL+"Packages"), "200 "), "the guests' apt source is served")

	for n, name := range map[int]string{11: "kvm1", 12: "kvm2"} {
		h, err := l.Host(ctx, HostOptions{Name: name, N: n})
		require.NoError(t, err)
		usable(ctx, t, h)
		faults(ctx, t, h)
	}
	require.NoError(t, l.Close())
	require.NoError(t, l.Close(), "a second Close does nothing")
	nothingLeft(t, dir)
}

// usable: the three ways to libvirtd lead to the same place, where both networks and the pool are.
func usable(ctx context.Context, t *testing.T, h *Host) {
	t.Helper()
	// libssh, since the ssh program reads known hosts from the user's own folder only
	ssh := strings.Replace(h.SSH, "qemu+ssh", "qemu+libssh", 1) + "?sshauth=privkey&known_hosts_verify=normal&keyfile=" + h.PrivateKeyFile
	for name, uri := range map[string]string{
		"tcp": h.TCP, "ssh": ssh + "&known_hosts=" + h.KnownHostsFile, "unix": "qemu+unix:///system?socket=" + h.Socket,
	} {
		out, err := run(ctx, "virsh", "--quiet", "--connect", uri, "net-list", "--name")
		require.NoError(t, err, name)
		assert.Contains(t, out, h.Network, name)
	}
	unknown := filepath.Join(t.TempDir(), "known_hosts")
	require.NoError(t, os.WriteFile(unknown, nil, 0o600))
	_, err := run(ctx, "virsh", "--connect", ssh+"&known_hosts="+unknown, "list")
	require.ErrorContains(t, err, "host key", "an unknown host key must be refused, or the pinned one proves nothing")

	_, err = run(ctx, "ip", "-n", h.netns, "link", "show", h.Bridge)
	require.NoError(t, err)
	out, err := h.Virsh(ctx, "pool-list", "--name")
	require.NoError(t, err)
	assert.Contains(t, out, h.Pool)
	_, err = h.Virsh(ctx, "vol-create-as", h.Pool, "x", "1M")
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(h.PoolDir, "x"))
	conn, err := net.DialTimeout("tcp", strings.Replace(h.Address, "10.77.0.", "10.88.", 1)+".1:53", 5*time.Second)
	require.NoError(t, err, "the routed network is reachable from this machine")
	require.NoError(t, conn.Close())
}

// faults: each way to lose a host looks as it says, and ends.
func faults(ctx context.Context, t *testing.T, h *Host) {
	t.Helper()
	answers := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := h.Virsh(ctx, "version")
		return err
	}
	for name, tc := range map[string]struct {
		begin, end func(context.Context) error
		symptom    string
	}{
		"killed":  {h.KillLibvirtd, h.StartLibvirtd, "Connection refused"},
		"stopped": {h.StopLibvirtd, h.StartLibvirtd, "Connection refused"},
		"silent":  {h.Pause, h.Continue, "signal: killed"}, // virsh waits until we lose patience
		"cut off": {h.LinkDown, h.LinkUp, ""},
	} {
		require.NoError(t, tc.begin(ctx), name)
		require.ErrorContains(t, answers(3*time.Second), tc.symptom, name)
		require.NoError(t, tc.end(ctx), name)
		require.NoError(t, answers(30*time.Second), name)
	}
	require.NoError(t, h.RestartLibvirtd(ctx))
	require.NoError(t, answers(30*time.Second))
}

func TestKilledLabIsCleanedUpByTheNext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := t.TempDir()
	victim := exec.CommandContext(ctx, os.Args[0])
	victim.Env = append(os.Environ(), "LAB_TEST_HOLD="+dir)
	out, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	line := make([]byte, 1000)
	n, err := out.Read(line)
	require.NoError(t, err)
	require.Equal(t, "up\n", string(line[:n]))
	pids, err := run(ctx, "ip", "netns", "pids", "pxl-kvm1")
	require.NoError(t, err)
	require.NotEmpty(t, strings.Fields(pids))

	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait()
	for _, pid := range strings.Fields(pids) {
		assert.Eventually(t, func() bool { return !exists("/proc/" + pid) }, 10*time.Second, 50*time.Millisecond, "process %s outlived its lab", pid)
	}
	require.True(t, linkExists(bridge), "the kernel keeps the bridge: else this test proves nothing")
	running, err := Running()
	require.NoError(t, err)
	require.Nil(t, running)

	next := t.TempDir()
	l, err := New(ctx, Options{Dir: next, Log: t.Logf})
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Join(dir, "hosts"))
	require.NoError(t, l.Close())
	nothingLeft(t, next)
}

// nothingLeft looks at the machine, not at what the lab believes.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, argv := range [][]string{{"ip", "netns"}, {"ip", "-o", "link"}, {"ip", "route"}} {
		out, err := run(ctx, argv...)
		require.NoError(t, err)
		assert.NotContains(t, out, "pxl-", strings.Join(argv, " "))
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range commands {
		data, err := os.ReadFile(name)
		if err == nil && name != "/proc/self/cmdline" {
			assert.False(t, bytes.Contains(data, []byte(dir+"/")) || bytes.Contains(data, []byte("interface="+bridge)), "%s: %q", name, data)
		}
	}
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	assert.NotContains(t, string(mounts), dir)
	assert.NoDirExists(t, hostsRunDir)
	assert.NoFileExists(t, recordPath())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	assert.Equal(t, "log", left[0].Name())
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(url)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.Status[:4] + string(body)
}
