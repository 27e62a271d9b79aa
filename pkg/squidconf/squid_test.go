//go:build squid

package squidconf_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/proxyard/proxyard/pkg/squidconf"
)

// inside marks the run of this test in a network namespace of its own, where addresses of every sort lie on the loopback
// device and nothing leads out. It needs root, iproute2, util-linux and squid, and fails without them.
const inside = "PROXYARD_SQUID_TEST_INSIDE"

func TestRealSquid(t *testing.T) {
	if os.Getenv(inside) == "" {
		cmd := exec.Command("unshare", "--net", os.Args[0], "-test.run=^TestRealSquid$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
		return
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", "203.0.113.10/32", "dev", "lo"}, // a public target
		{"addr", "add", "10.9.9.9/32", "dev", "lo"},     // a target in the LAN
		{"addr", "add", "169.254.169.254/32", "dev", "lo"},
		{"addr", "add", "fd00::9/128", "dev", "lo", "nodad"},
	} {
		out, err := exec.Command("ip", args...).CombinedOutput()
		require.NoError(t, err, "ip %v: %s", args, out)
	}
	seen := serveTargets(t)
	t.Run("with a password", func(t *testing.T) { testWithPassword(t, seen) })
	t.Run("without a password", testWithoutPassword)
}

// serveTargets answers 204 on ports 80, 443 and 8080 of every address, and hands on the headers that it saw.
func serveTargets(t *testing.T) <-chan http.Header {
	t.Helper()
	seen := make(chan http.Header, 100)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.WriteHeader(http.StatusNoContent)
	})
	for _, port := range []string{"80", "443", "8080"} {
		l, err := net.Listen("tcp", ":"+port)
		require.NoError(t, err)
		s := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
	}
	return seen
}

func testWithPassword(t *testing.T, seen <-chan http.Header) {
	user := squidconf.User{Name: "Fleet User", Password: `p:a"s's \$1 ü# ` + strings.Repeat("x", 80)}
	startSquid(t, squidconf.Config{
		Hostname: "px", Port: 3128, User: &user,
		AllowedClients: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		ExtraTargets:   []string{"10.9.9.9:8080", "probe.lan:80"},
	})
	good := url.UserPassword(user.Name, user.Password)
	wrong := url.UserPassword(user.Name, user.Password+"y")
	otherCase := url.UserPassword(strings.ToLower(user.Name), user.Password)
	cases := map[string]struct {
		user   *url.Userinfo
		from   string
		target string
		want   int
	}{
		"public target":                   {good, "127.0.0.1", "http://203.0.113.10/", 204},
		"no credentials":                  {nil, "127.0.0.1", "http://203.0.113.10/", 407},
		"wrong password":                  {wrong, "127.0.0.1", "http://203.0.113.10/", 407},
		"name in other case":              {otherCase, "127.0.0.1", "http://203.0.113.10/", 407},
		"client not allowed":              {good, "127.0.0.2", "http://203.0.113.10/", 403},
		"other port":                      {good, "127.0.0.1", "http://203.0.113.10:8080/", 403},
		"loopback":                        {good, "127.0.0.1", "http://127.0.0.1/", 403},
		"loopback, IPv6":                  {good, "127.0.0.1", "http://[::1]/", 403},
		"loopback, mapped":                {good, "127.0.0.1", "http://[::ffff:127.0.0.1]/", 403},
		"loopback as one number":          {good, "127.0.0.1", "http://2130706433/", 403},
		"any address":                     {good, "127.0.0.1", "http://0.0.0.0/", 403},
		"loopback by name":                {good, "127.0.0.1", "http://localhost/", 403},
		"metadata":                        {good, "127.0.0.1", "http://169.254.169.254/latest/", 403},
		"LAN":                             {good, "127.0.0.1", "http://10.9.9.9/", 403},
		"LAN, IPv6":                       {good, "127.0.0.1", "http://[fd00::9]/", 403},
		"LAN by name":                     {good, "127.0.0.1", "http://inner.lan/", 403},
		"probe target by address":         {good, "127.0.0.1", "http://10.9.9.9:8080/generate_204", 204},
		"probe target by name":            {good, "127.0.0.1", "http://probe.lan/generate_204", 204},
		"probe target, other port":        {good, "127.0.0.1", "http://probe.lan:443/", 403},
		"probe target, no credentials":    {nil, "127.0.0.1", "http://10.9.9.9:8080/", 407},
		"probe target, client not listed": {good, "127.0.0.2", "http://10.9.9.9:8080/", 403},
		"manager":                         {good, "127.0.0.2", "http://px:3128/squid-internal-mgr/menu", 403},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, status(t, c.user, c.from, c.target))
		})
	}
	t.Run("CONNECT", func(t *testing.T) {
		assert.Equal(t, 200, connect(t, good, "203.0.113.10:443"))
		assert.Equal(t, 403, connect(t, good, "203.0.113.10:22"))
		assert.Equal(t, 403, connect(t, good, "10.9.9.9:443"))
		assert.Equal(t, 407, connect(t, nil, "203.0.113.10:443"))
	})
	t.Run("nothing told to the target", func(t *testing.T) {
		for len(seen) > 0 {
			<-seen
		}
		require.Equal(t, 204, status(t, good, "127.0.0.1", "http://203.0.113.10/"))
		header := <-seen
		for _, name := range []string{"Via", "X-Forwarded-For", "Forwarded", "Cache-Control", "Proxy-Authorization"} {
			assert.Empty(t, header.Values(name), name)
		}
	})
}

func testWithoutPassword(t *testing.T) {
	startSquid(t, squidconf.Config{
		Hostname: "px", Port: 3128, AllowedClients: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	assert.Equal(t, 204, status(t, nil, "127.0.0.1", "http://203.0.113.10/"))
	assert.Equal(t, 403, status(t, nil, "127.0.0.2", "http://203.0.113.10/"))
	assert.Equal(t, 403, status(t, nil, "127.0.0.1", "http://10.9.9.9/"))
	assert.Equal(t, 403, status(t, nil, "127.0.0.1", "http://127.0.0.1/"))
}

// startSquid runs squid with the rendered configuration, its paths moved to a scratch folder, until the test ends.
func startSquid(t *testing.T, c squidconf.Config) {
	t.Helper()
	rendered, err := squidconf.CloudConfig(c, []byte("salt"))
	require.NoError(t, err)
	var config struct {
		WriteFiles []struct{ Path, Content string } `yaml:"write_files"`
	}
	require.NoError(t, yaml.Unmarshal(rendered, &config))
	dir, err := os.MkdirTemp("", "squid") //nolint:usetesting // squid runs as its own user, who cannot enter what t.TempDir lies in
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	var conf string
	for _, f := range config.WriteFiles {
		switch filepath.Base(f.Path) {
		case "proxyard.passwd":
			require.NoError(t, os.WriteFile(filepath.Join(dir, "proxyard.passwd"), []byte(f.Content), 0o644))
		case "proxyard.conf":
			if strings.HasPrefix(f.Path, "/etc/squid/") {
				conf = f.Content
			}
		}
	}
	conf = strings.ReplaceAll(conf, "/etc/squid/", dir+"/")
	conf = strings.ReplaceAll(conf, "/var/spool/squid", dir)
	hosts := filepath.Join(dir, "hosts")
	require.NoError(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n10.9.9.9 probe.lan inner.lan\n"), 0o644))
	conf += fmt.Sprintf("pid_filename %[1]s/pid\naccess_log stdio:%[1]s/access.log\ncache_log %[1]s/cache.log\nhosts_file %[2]s\nshutdown_lifetime 0 seconds\n", dir, hosts)
	path := filepath.Join(dir, "squid.conf")
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o644))
	out, err := exec.Command("squid", "-k", "parse", "-f", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	said := strings.ReplaceAll(string(out), "WARNING: HTTP requires the use of Via", "") // it is off on purpose
	for _, word := range []string{"WARNING", "ERROR", "FATAL"} {
		assert.NotContains(t, said, word)
	}
	cmd := exec.Command("squid", "-N", "-YC", "-f", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it ends its helpers
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "cache.log"))
			t.Logf("%s", log)
		}
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:3128")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 50*time.Millisecond, "squid does not listen")
}

func status(t *testing.T, user *url.Userinfo, from, target string) int {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128", User: user}),
		DialContext:       dialer.DialContext,
		DisableKeepAlives: true,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("X-Forwarded-For", "192.0.2.1")
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func connect(t *testing.T, user *url.Userinfo, target string) int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", "127.0.0.1:3128", time.Second)
	require.NoError(t, err)
	defer conn.Close()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		basic := &http.Request{Header: http.Header{}}
		basic.SetBasicAuth(user.Username(), password)
		req.Header.Set("Proxy-Authorization", basic.Header.Get("Authorization"))
	}
	require.NoError(t, req.Write(conn))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	require.NoError(t, err)
	// The connection goes first: closing a body reads to its end, and a tunnel has none.
	_ = conn.Close()
	_ = resp.Body.Close()
	return resp.StatusCode
}
