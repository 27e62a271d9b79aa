package lab

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func quiet(string, ...any) {}

func TestArtifactIsBuiltOnceForTheSameInputs(t *testing.T) {
	t.Setenv("PROXYARD_CACHE", t.TempDir())
	builds := 0
	thing := artifact{name: "thing", inputs: []string{"a"}, build: func(_ context.Context, into string) error {
		builds++
		return os.WriteFile(filepath.Join(into, "result"), []byte("x"), 0o600)
	}}
	first, err := thing.get(t.Context(), quiet)
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(first, "result"))
	second, err := thing.get(t.Context(), quiet)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	assert.Equal(t, 1, builds)

	thing.inputs = []string{"b"}
	other, err := thing.get(t.Context(), quiet)
	require.NoError(t, err)
	assert.NotEqual(t, first, other, "other inputs must not get an old result")
	assert.Equal(t, 2, builds)
}

func TestArtifactThatFailedLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("PROXYARD_CACHE", cache)
	broken := artifact{name: "thing", build: func(_ context.Context, into string) error {
		require.NoError(t, os.WriteFile(filepath.Join(into, "half"), nil, 0o600))
		return assert.AnError
	}}
	_, err := broken.get(t.Context(), quiet)
	require.ErrorIs(t, err, assert.AnError)
	left, err := filepath.Glob(filepath.Join(cache, "thing-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestDigestKeepsInputsApart(t *testing.T) {
	assert.NotEqual(t, digest([]string{"ab", "c"}), digest([]string{"a", "bc"}))
	first := digest([]string{"ab", "c"})
	assert.Equal(t, first, digest([]string{"ab", "c"}))
}

func TestRunBuildLogsStepsAndShowsWhatFailed(t *testing.T) {
	var steps []string
	log := func(_ string, args ...any) { steps = append(steps, args[len(args)-1].(string)) }
	err := runBuild(t.Context(), t.TempDir(), log, "bash", "-c", "echo '==> one'; echo noise; echo no space >&2; exit 3")
	require.ErrorContains(t, err, "no space")
	assert.Equal(t, []string{"one"}, steps)
}

func TestHardwareVirtualisation(t *testing.T) {
	for name, tc := range map[string]struct {
		cpuinfo string
		want    bool
	}{
		"intel":            {"flags\t\t: fpu vme vmx ssse3\n", true},
		"amd":              {"flags\t\t: fpu svm\nbugs : x\n", true},
		"neither":          {"flags\t\t: fpu vme sse2\n", false},
		"a longer word":    {"flags\t\t: fpu svm_lock vmxnet\n", false},
		"in another line":  {"flags\t\t: fpu\nvmx flags\t: vnmi\n", false},
		"no flags, as arm": {"Features\t: fp asimd\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, hardwareVirtualisation.MatchString(tc.cpuinfo))
		})
	}
}

func TestMemAvailable(t *testing.T) {
	assert.EqualValues(t, 2048<<10, memAvailable("MemTotal:  9 kB\nMemAvailable:    2048 kB\nSwapFree: 1 kB\n"))
	assert.Zero(t, memAvailable("MemTotal:  9 kB\n"))
}

func TestWorkDirIsRefusedWhereHostsMountTheirOwn(t *testing.T) {
	for _, dir := range []string{"/run", "/run/lab", "/var/lib/libvirt/images"} {
		_, err := workDir(dir)
		assert.ErrorContains(t, err, "take another place", dir)
	}
	dir, err := workDir(filepath.Join(t.TempDir(), "runaway"))
	require.NoError(t, err)
	assert.DirExists(t, filepath.Join(dir, "log"))
}

func TestHostFilesPinTheHostsKey(t *testing.T) {
	h := &Host{Name: "kvm1", Address: "10.77.0.11"}
	files, err := h.sshFiles("/base/ssh")
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(h.KnownHosts), "10.77.0.11 ssh-ed25519 "), "%s", h.KnownHosts)
	assert.Equal(t, 1, strings.Count(string(h.KnownHosts), "\n"), "the ecdsa key must not be pinned: tests need it unknown")
	assert.Contains(t, string(files["ssh/sshd_config"]), "HostKey /base/ssh/host_ecdsa\n")
	other, err := (&Host{Name: "kvm1", Address: "10.77.0.11"}).sshFiles("/base/ssh")
	require.NoError(t, err)
	assert.NotEqual(t, files["ssh/client"], other["ssh/client"], "keys are new for each host")
}

func TestHandler(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "apt"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "apt", "Packages"), []byte("Package: x\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "apt", "a_1%3a2+3~deb12.deb"), []byte("deb"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "debian.qcow2"), []byte("QFI"), 0o600))
	server := handler(Image{Path: filepath.Join(dir, "debian.qcow2"), AptDir: filepath.Join(dir, "apt")})
	for name, tc := range map[string]struct {
		path, body string
		status     int
	}{
		"probe":         {"/generate_204", "", http.StatusNoContent},
		"client":        {"/client", "192.0.2.1\n", http.StatusOK},
		"image":         {"/images/debian.qcow2", "QFI", http.StatusOK},
		"apt":           {"/apt/Packages", "Package: x\n", http.StatusOK},
		"nothing else":  {"/debian.qcow2", "404 page not found\n", http.StatusNotFound},
		"no other file": {"/apt/../debian.qcow2", "404 page not found\n", http.StatusNotFound},
		"as apt asks":   {"/apt/./a_1%253a2%2b3%7edeb12.deb", "deb", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, tc.path, http.NoBody))
			assert.Equal(t, tc.status, answer.Code)
			assert.Equal(t, tc.body, answer.Body.String())
		})
	}
}

func TestHasOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	file, err := os.Create(name)
	require.NoError(t, err)
	assert.True(t, hasOpen(os.Getpid(), name))
	require.NoError(t, file.Close())
	assert.False(t, hasOpen(os.Getpid(), name), "a stranger with the number of a dead holder must not be signalled")
}
