//go:build e2e

// Package e2e_test boots real guests: the manager, under the RBAC that is shipped, on two real libvirt hosts, with the samples'
// real cloud-configs. What it shows is what `make demo` shows.
package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/e2e/lab"
	"github.com/proxyard/proxyard/e2e/stack"
)

const (
	// bootTime is for three emulated guests that install squid at once: 6 minutes on two idle cores.
	bootTime = 20 * time.Minute
	// deleteTime spans the grace for the guest and the polls around it.
	deleteTime = 3 * time.Minute
)

// users of the samples that ask for one.
var users = map[string]*url.Userinfo{"office": url.UserPassword("office", "change-me")}

func start(t *testing.T) *stack.Stack {
	t.Helper()
	began := time.Now()
	s, err := stack.Start(t.Context(), stack.Options{Wait: true, Log: func(format string, args ...any) {
		t.Logf("[%5.1fs] %s", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func TestProxiesServe(t *testing.T) {
	s := start(t)
	require.NoError(t, s.Apply(t.Context(), "hypervisor-kvm1.yaml", "hypervisor-kvm2.yaml", "proxy-shop.yaml", "proxy-news.yaml", "rendered/proxy-office.yaml"))

	assert.Equal(t, []string{"lease"}, awaitAddress(t, s, "shop"), "kvm1's network knows leases, long before the agent is installed")
	require.Len(t, awaitReady(t, s), 3)
	proxies := awaitBooted(t, s)
	for _, p := range proxies {
		t.Run(p.Metadata.Name, func(t *testing.T) {
			status, err := s.Request(t.Context(), p.Status.Endpoint, users[p.Metadata.Name])
			require.NoError(t, err)
			assert.Equal(t, http.StatusNoContent, status, "a request through squid")
			require.NotEmpty(t, p.Status.Addresses)
		})
	}
	status, err := s.Request(t.Context(), byName(proxies, "office").Status.Endpoint, nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusProxyAuthRequired, status, "the rendered squid serves nobody without the password")
	news := byName(proxies, "news")
	assert.Equal(t, []string{"agent"}, sources(news), "a bridge knows none: the guest agent, added to the user's packages, told the address")
	assert.True(t, strings.HasSuffix(news.Status.Endpoint, ":8888"), "spec.port: %s", news.Status.Endpoint)

	wide, err := s.Kubectl(t.Context(), "", "get", "hv,px", "-o", "wide")
	require.NoError(t, err)
	t.Log("\n" + wide)

	deleteAll(t, s)
	nothingLeft(t, s)
}

func awaitReady(t *testing.T, s *stack.Stack) []stack.Proxy {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	proxies, err := s.AwaitReady(ctx, "shop", "news", "office")
	if err != nil {
		dumpManager(t, s)
	}
	require.NoError(t, err)
	return proxies
}

// awaitAddress waits for the first address of a Proxy and gives its sources.
func awaitAddress(t *testing.T, s *stack.Stack, name string) (from []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		proxies, err := s.Proxies(t.Context())
		from = sources(byName(proxies, name))
		return err == nil && len(from) > 0
	}, bootTime, 500*time.Millisecond, "an address of %s", name)
	return from
}

// awaitBooted waits for cloud-init's own word, which the guest agent brings: squid may serve before cloud-init has ended.
func awaitBooted(t *testing.T, s *stack.Stack) (proxies []stack.Proxy) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		proxies, err = s.Proxies(t.Context())
		require.NoError(c, err)
		for _, p := range proxies {
			assert.Equal(c, "done", p.Status.Boot.CloudInit, "cloud-init of %s", p.Metadata.Name)
		}
	}, bootTime, time.Second, "cloud-init liked the whole document")
	return proxies
}

func dumpManager(t *testing.T, s *stack.Stack) {
	t.Helper()
	log, err := os.ReadFile(s.Manager().Log())
	require.NoError(t, err)
	t.Logf("the manager's last words:\n%s", log[max(0, len(log)-8000):])
}

func byName(all []stack.Proxy, name string) stack.Proxy {
	for _, p := range all {
		if p.Metadata.Name == name {
			return p
		}
	}
	return stack.Proxy{}
}

func sources(p stack.Proxy) []string {
	var out []string
	for _, a := range p.Status.Addresses {
		out = append(out, a.Source)
	}
	return out
}

func deleteAll(t *testing.T, s *stack.Stack) {
	t.Helper()
	_, err := s.Kubectl(t.Context(), "", "delete", "px", "--all", "--timeout="+deleteTime.String())
	if err != nil {
		dumpManager(t, s)
	}
	require.NoError(t, err)
}

// nothingLeft looks at the hosts themselves: no domain, no volume but the cached images, no connection once the manager ends.
func nothingLeft(t *testing.T, s *stack.Stack) {
	t.Helper()
	for _, h := range s.Hosts {
		domains, err := h.Virsh(t.Context(), "list", "--all", "--name")
		require.NoError(t, err)
		assert.Empty(t, strings.TrimSpace(domains), "domains on %s", h.Name)
		files, err := os.ReadDir(h.PoolDir)
		require.NoError(t, err)
		for _, f := range files {
			assert.Contains(t, f.Name(), "-img-", "only the image may be left on %s", h.Name)
		}
		assert.Len(t, files, 2, "the image and its mark on %s: %v", h.Name, files)
	}
	_, err := s.Kubectl(t.Context(), "", "delete", "hv", "--all", "--timeout=1m")
	require.NoError(t, err)
	require.NoError(t, s.Manager().Stop())
	for _, h := range s.Hosts {
		assert.Eventually(t, func() bool { return connections(t, h) == 0 }, 30*time.Second, time.Second, "connections on %s", h.Name)
	}
}

// connections counts the established TCP connections of this machine to a host's libvirtd and sshd.
func connections(t *testing.T, h *lab.Host) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Clean("/proc/net/tcp"))
	require.NoError(t, err)
	var a, b, c, d int
	_, err = fmt.Sscanf(h.Address, "%d.%d.%d.%d", &a, &b, &c, &d)
	require.NoError(t, err)
	const established = " 01 "
	n := 0
	for _, port := range []int{22, 16509} {
		remote := fmt.Sprintf("%02X%02X%02X%02X:%04X", d, c, b, a, port)
		n += strings.Count(string(data), remote+established)
	}
	return n
}
