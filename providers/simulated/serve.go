package simulated

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
)

// ServeHTTP answers one request in the machine's mode.
func (s *proxyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := *s.answer.Load()
	switch {
	case a.Mode == Hang:
		select {
		case <-r.Context().Done():
		case <-s.done:
		}
		panic(http.ErrAbortHandler)
	case a.Mode == Reset:
		panic(http.ErrAbortHandler)
	case a.Mode == SquidError:
		squidError(w, http.StatusServiceUnavailable, "ERR_DNS_FAIL 0")
	case a.Mode == Forbid:
		squidError(w, http.StatusForbidden, "ERR_ACCESS_DENIED 0")
	case a.Mode == RejectAuth, !a.admits(r):
		w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
		squidError(w, http.StatusProxyAuthRequired, "ERR_CACHE_ACCESS_DENIED 0")
	case r.Method == http.MethodConnect:
		s.tunnel(w, r)
	case !r.URL.IsAbs():
		squidError(w, http.StatusBadRequest, "ERR_INVALID_URL 0")
	default:
		s.forward(w, r)
	}
}

func (a Proxy) admits(r *http.Request) bool {
	if a.Username == "" && a.Password == "" {
		return true
	}
	// BasicAuth reads Authorization only.
	user, password, ok := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
	return ok && user == a.Username && password == a.Password
}

func squidError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Squid-Error", code)
	http.Error(w, code, status)
}

func (s *proxyServer) forward(w http.ResponseWriter, r *http.Request) {
	rp := httputil.ReverseProxy{
		Transport: s.transport,
		Rewrite:   func(pr *httputil.ProxyRequest) { pr.Out.Host = pr.In.Host },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			squidError(w, http.StatusServiceUnavailable, "ERR_CONNECT_FAIL 111")
		},
	}
	rp.ServeHTTP(w, r)
}

func (s *proxyServer) tunnel(w http.ResponseWriter, r *http.Request) {
	d := net.Dialer{Timeout: dialTimeout}
	target, err := d.DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		squidError(w, http.StatusServiceUnavailable, "ERR_CONNECT_FAIL 111")
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = target.Close()
		return
	}
	if !s.keep(client, target) {
		return
	}
	defer s.drop(client, target)
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	go pipe(target, buffered, ended)
	go pipe(client, target, ended)
	<-ended
	// One side is through; the other gets the end of file and may still finish, until either end closes.
	select {
	case <-ended:
	case <-s.done:
	}
}

func pipe(dst net.Conn, src io.Reader, ended chan<- struct{}) {
	_, _ = io.Copy(dst, src)
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	ended <- struct{}{}
}

// keep registers the ends of a tunnel, or closes them when the machine has stopped meanwhile.
func (s *proxyServer) keep(conns ...net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conns {
		s.tunnels[c] = struct{}{}
	}
	select {
	case <-s.done:
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	default:
		return true
	}
}

func (s *proxyServer) drop(conns ...net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(s.tunnels, c)
	}
}
