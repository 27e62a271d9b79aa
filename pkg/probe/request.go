package probe

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Limits of one probe: a hostile target or proxy must not cost memory.
const (
	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 64 << 10
)

// Request makes one request through the target's proxy and classifies what comes back.
func Request(ctx context.Context, t Target) Observation {
	proxy := &url.URL{Scheme: "http", Host: t.Address}
	if t.Username != "" {
		proxy.User = url.UserPassword(t.Username, t.Password)
	}
	return request(ctx, t, proxy)
}

// Control makes the same request without the proxy: it tells whether the target is there at all.
func Control(ctx context.Context, t Target) Observation {
	return request(ctx, t, nil)
}

func request(ctx context.Context, t Target, proxy *url.URL) Observation {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	req, err := newRequest(ctx, t.URL)
	if err != nil {
		return Observation{Class: TargetInvalid, Message: fmt.Sprintf("%q cannot be requested", t.URL), At: time.Now()}
	}
	transport := newTransport(proxy)
	defer transport.CloseIdleConnections()
	start := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		class, msg := classifyError(err)
		return Observation{Class: class, Message: msg, At: time.Now()}
	}
	latency := time.Since(start)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBodyBytes))
	class, msg := classifyStatus(resp.StatusCode, t.ExpectedStatus, resp.Header)
	return Observation{Class: class, Message: msg, Latency: latency, At: time.Now()}
}

// newRequest asks for an answer that no cache can give: a cached 200 would hide a dead uplink.
func newRequest(ctx context.Context, target string) (*http.Request, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	query.Set("proxyard", rand.Text())
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Cache-Control", "no-cache")
	req.Header.Set("User-Agent", "proxyard-probe")
	return req, nil
}

// newTransport is one connection's worth of transport: nothing is kept alive, since the next probe must prove the whole way
// again; the environment's proxies play no part; RoundTrip follows no redirects.
func newTransport(proxy *url.URL) *http.Transport {
	dialer := &net.Dialer{KeepAlive: -1}
	t := &http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		},
	}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
		t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
			if res.StatusCode != http.StatusOK {
				return &refusalError{status: res.StatusCode, header: res.Header}
			}
			return nil
		}
	}
	return t
}
