package probe

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answer is a proxy that answers every plain request itself.
func answer(status int, header map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
	}
}

func TestRequestClassifies(t *testing.T) {
	squid := func(code string) map[string]string { return map[string]string{"X-Squid-Error": code} }
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		scheme  string
		class   Class
		message string
	}{
		"expected answer":           {answer(204, nil), "http", Success, ""},
		"captive portal":            {answer(200, nil), "http", WrongContent, "status 200 where 204 was expected"},
		"redirect is not followed":  {answer(302, map[string]string{"Location": "http://portal.example/"}), "http", WrongContent, "status 302"},
		"credentials rejected":      {answer(407, squid("ERR_CACHE_ACCESS_DENIED 0")), "http", AuthRejected, "407"},
		"407 of another proxy":      {answer(407, nil), "http", AuthRejected, "407"},
		"forbidden by the proxy":    {answer(403, squid("ERR_ACCESS_DENIED 0")), "http", ACLDenied, "ERR_ACCESS_DENIED"},
		"forbidden by the target":   {answer(403, nil), "http", TargetRefused, "the target itself answers 403"},
		"target is rate limiting":   {answer(429, nil), "http", TargetRefused, "429"},
		"target is broken":          {answer(500, nil), "http", TargetRefused, "500"},
		"upstream refused":          {answer(503, squid("ERR_CONNECT_FAIL 111")), "http", UpstreamUnreachable, "ERR_CONNECT_FAIL"},
		"resolver dead":             {answer(502, squid("ERR_READ_ERROR 0")), "http", UpstreamUnreachable, "502"},
		"CONNECT without login":     {answer(407, squid("ERR_CACHE_ACCESS_DENIED 0")), "https", AuthRejected, "407"},
		"CONNECT forbidden":         {answer(403, nil), "https", ACLDenied, "403"},
		"CONNECT cannot be forward": {answer(500, squid("ERR_CANNOT_FORWARD 0")), "https", UpstreamUnreachable, "ERR_CANNOT_FORWARD"},
		"no HTTP proxy":             {func(w http.ResponseWriter, _ *http.Request) { raw(w, "220 smtp.example\r\n") }, "http", ProxyUnreachable, "no HTTP answer"},
		"connection cut":            {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "http", ProxyUnreachable, "no HTTP answer"},
		"silence":                   {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "http", Timeout, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := httptest.NewServer(c.handler)
			defer proxy.Close()
			o := Request(t.Context(), Target{
				Address: proxy.Listener.Addr().String(), URL: c.scheme + "://target.invalid/generate_204", ExpectedStatus: 204, Timeout: time.Second,
			})
			assert.Equal(t, c.class, o.Class, o.Message)
			assert.Contains(t, o.Message, c.message)
			assert.NotContains(t, o.Message, "127.0.0.1", "a message must not change with the port that we happened to get")
			assert.False(t, o.At.IsZero())
		})
	}
}

func raw(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_, _ = conn.Write([]byte(text))
		_ = conn.Close()
	}
}

func TestRequestToAClosedPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	o := Request(t.Context(), Target{Address: addr, URL: "http://target.invalid/", ExpectedStatus: 204, Timeout: time.Second})
	assert.Equal(t, ProxyUnreachable, o.Class)
	assert.Equal(t, "cannot connect to the proxy: connection refused", o.Message)
}

func TestRequestIsFreshAndAuthorised(t *testing.T) {
	var seen []*http.Request
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer target.Close()
	var logins []string
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		logins = append(logins, r.In.Header.Get("Proxy-Authorization"))
	}})
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for range 2 {
		o := Request(t.Context(), Target{
			Address: proxy.Listener.Addr().String(), URL: target.URL + "/x?keep=1", ExpectedStatus: 204, Timeout: time.Second,
			Username: "us:er", Password: "p@ss/%word",
		})
		require.Equal(t, Success, o.Class, o.Message)
		assert.Positive(t, o.Latency)
	}
	require.Len(t, seen, 2)
	assert.Equal(t, "no-cache", seen[0].Header.Get("Cache-Control"))
	assert.Equal(t, "1", seen[0].URL.Query().Get("keep"))
	assert.NotEqual(t, seen[0].URL.RawQuery, seen[1].URL.RawQuery, "a cache may not answer")
	assert.True(t, strings.HasPrefix(logins[0], "Basic "))
}

func TestControlGoesWithoutTheProxy(t *testing.T) {
	target := httptest.NewServer(answer(204, nil))
	defer target.Close()
	o := Control(t.Context(), Target{Address: "127.0.0.1:1", URL: target.URL, ExpectedStatus: 204, Timeout: time.Second})
	assert.Equal(t, Success, o.Class)
}

func TestMalformedTargetSaysNothingOfTheProxy(t *testing.T) {
	o := Request(t.Context(), Target{Address: "127.0.0.1:1", URL: "http://%zz/", Timeout: time.Second})
	assert.Equal(t, TargetInvalid, o.Class)
	assert.True(t, o.Class.Neutral())
}
