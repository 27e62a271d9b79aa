package simulated_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

// running makes a machine that has booted and tells where its proxy listens.
func running(t *testing.T, p *simulated.Provider, m providers.Machine) (providers.ProviderID, string) {
	t.Helper()
	s, err := p.Create(t.Context(), m)
	require.NoError(t, err)
	require.Len(t, s.Addresses, 1)
	return s.ID, s.Addresses[0].IP.String()
}

func clientThrough(t *testing.T, host string, port int, user *url.Userinfo) *http.Client {
	t.Helper()
	tr := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", host, port), User: user}),
		DisableKeepAlives: true,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 5 * time.Second}
}

func target(t *testing.T, start func(http.Handler) *httptest.Server) *httptest.Server {
	t.Helper()
	s := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(s.Close)
	return s
}

func TestProxyServesHTTPAndCONNECT(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newProvider(t, simulated.Options{Port: 3901})
	defer p.Close()
	_, ip := running(t, p, machine("u1"))

	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer plain.Close()
	res, err := clientThrough(t, ip, 3901, nil).Get(plain.URL)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusNoContent, res.StatusCode)

	secure := httptest.NewTLSServer(plain.Config.Handler)
	defer secure.Close()
	c := clientThrough(t, ip, 3901, nil)
	c.Transport.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	res, err = c.Get(secure.URL)
	require.NoError(t, err, "https goes through CONNECT")
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusNoContent, res.StatusCode)
}

func TestProxyModes(t *testing.T) {
	tests := map[string]struct {
		reason string
		answer simulated.Proxy
		user   *url.Userinfo
		status int // 0: no answer
		squid  string
	}{
		"serves":              {"the default", simulated.Proxy{}, nil, 204, ""},
		"credentials fit":     {"squid with basic_auth", simulated.Proxy{Username: "a", Password: "b"}, url.UserPassword("a", "b"), 204, ""},
		"credentials missing": {"G12: 407 is not alive", simulated.Proxy{Username: "a", Password: "b"}, nil, 407, "ERR_CACHE_ACCESS_DENIED 0"},
		"credentials wrong":   {"G12", simulated.Proxy{Username: "a", Password: "b"}, url.UserPassword("a", "x"), 407, "ERR_CACHE_ACCESS_DENIED 0"},
		"rejects everybody":   {"password file lost", simulated.Proxy{Mode: simulated.RejectAuth}, url.UserPassword("a", "b"), 407, "ERR_CACHE_ACCESS_DENIED 0"},
		"cannot resolve":      {"G13: squid up, resolver down", simulated.Proxy{Mode: simulated.SquidError}, nil, 503, "ERR_DNS_FAIL 0"},
		"forbids":             {"access list", simulated.Proxy{Mode: simulated.Forbid}, nil, 403, "ERR_ACCESS_DENIED 0"},
		"resets":              {"connection cut", simulated.Proxy{Mode: simulated.Reset}, nil, 0, ""},
		"refuses":             {"squid does not run", simulated.Proxy{Mode: simulated.Refuse}, nil, 0, ""},
	}
	srv := target(t, httptest.NewServer)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, simulated.Options{Port: 3902})
			id, ip := running(t, p, machine("u1"))
			require.NoError(t, p.Faults().Proxy(id, tc.answer))
			res, err := clientThrough(t, ip, 3902, tc.user).Get(srv.URL)
			if tc.status == 0 {
				require.Error(t, err, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.NoError(t, res.Body.Close())
			assert.Equal(t, tc.status, res.StatusCode, tc.reason)
			assert.Equal(t, tc.squid, res.Header.Get("X-Squid-Error"), tc.reason)
		})
	}
}

func TestProxyHangsUntilTheMachineStops(t *testing.T) {
	p := newProvider(t, simulated.Options{Port: 3903})
	id, ip := running(t, p, machine("u1"))
	require.NoError(t, p.Faults().Proxy(id, simulated.Proxy{Mode: simulated.Hang}))
	c, err := net.Dial("tcp", net.JoinHostPort(ip, "3903"))
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprint(c, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = bufio.NewReader(c).ReadByte()
	require.ErrorContains(t, err, "timeout", "no byte while it hangs")

	require.NoError(t, p.Faults().Stop(id))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err = bufio.NewReader(c).ReadByte()
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "timeout", "the stop cuts the connection")
}

func TestProxyFollowsTheMachine(t *testing.T) {
	srv := target(t, httptest.NewServer)
	p := newProvider(t, simulated.Options{Port: 3904})
	m := machine("u1")
	m.UserData = []byte("#cloud-config\nwrite_files:\n- content: |\n    http_port 3905\n")
	id, ip := running(t, p, m)
	get := func(ip string) error {
		res, err := clientThrough(t, ip, 3905, nil).Get(srv.URL)
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	require.NoError(t, get(ip), "the port is the one of the user-data")

	require.NoError(t, p.Faults().MoveAddress(id))
	s, err := p.Get(t.Context(), id)
	require.NoError(t, err)
	require.NotEqual(t, ip, s.Addresses[0].IP.String())
	require.NoError(t, get(s.Addresses[0].IP.String()), "it serves at the new address")
	require.Error(t, get(ip), "and no longer at the old one")

	require.NoError(t, p.Faults().Stop(id))
	require.Error(t, get(s.Addresses[0].IP.String()), "a stopped machine has no port")
	_, again := running(t, p, m)
	assert.Equal(t, s.Addresses[0].IP.String(), again, "a restart keeps the address")
	require.NoError(t, get(again))

	require.NoError(t, p.Delete(t.Context(), id))
	require.Error(t, get(again))
}
