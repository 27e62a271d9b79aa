package simulated

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// Mode is how a machine's proxy answers.
type Mode int

// The modes of a machine's proxy.
const (
	// Serve proxies.
	Serve Mode = iota
	// Hang accepts connections and requests and never answers.
	Hang
	// Refuse closes the port, as when squid does not run.
	Refuse
	// Reset cuts the connection in answer to a request.
	Reset
	// SquidError answers 503 with X-Squid-Error ERR_DNS_FAIL, as squid without a working resolver does.
	SquidError
	// Forbid answers 403 with X-Squid-Error ERR_ACCESS_DENIED, as squid's access list does.
	Forbid
	// RejectAuth answers 407 whatever the credentials.
	RejectAuth
)

// Proxy says how a machine's proxy answers. The zero value proxies for everybody.
type Proxy struct {
	Mode Mode
	// Username and Password, when set, must be sent as basic proxy authorization; 407 otherwise.
	Username, Password string
}

// addressTries bounds the search for a free loopback address: another test process may have derived the same one.
const addressTries = 16

// dialTimeout bounds how long a CONNECT waits for its target.
const dialTimeout = 10 * time.Second

// proxyServer is the listener of one booted machine.
type proxyServer struct {
	addr      netip.AddrPort
	server    *http.Server
	transport *http.Transport
	answer    atomic.Pointer[Proxy]
	done      chan struct{}

	mu      sync.Mutex
	tunnels map[net.Conn]struct{}
}

// listen opens the machine's port: on the address that it had, else on the first free one derived from its UUID.
func (m *machine) listen() error {
	m.proxy.close()
	for i := range addressTries {
		addr := netip.AddrPortFrom(loopback(m.id, m.moved+i), m.port)
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr.String())
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return fmt.Errorf("listen on %s: %w", addr, err)
		}
		m.moved += i
		m.proxy = newProxyServer(addr, m.answer)
		if m.answer.Mode == Refuse {
			return l.Close()
		}
		go func(s *proxyServer) { _ = s.server.Serve(l) }(m.proxy)
		return nil
	}
	return fmt.Errorf("no free loopback address for port %d", m.port)
}

// loopback derives the n-th candidate, a multiple of a large prime away from the first: 127.x.y.z, never 127.0.0.0/16 where other programs live.
func loopback(id uuid.UUID, n int) netip.Addr {
	h := binary.BigEndian.Uint32(id[12:]) + uint32(n)*2654435761
	return netip.AddrFrom4([4]byte{127, byte(h>>16)%254 + 1, byte(h >> 8), byte(h)%254 + 1})
}

func newProxyServer(addr netip.AddrPort, answer Proxy) *proxyServer {
	s := &proxyServer{
		addr: addr, done: make(chan struct{}), tunnels: map[net.Conn]struct{}{},
		transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	s.answer.Store(&answer)
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: dialTimeout}
	return s
}

// close is idempotent and fine on nil: most machines have no listener.
func (s *proxyServer) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		return
	default:
	}
	close(s.done)
	_ = s.server.Close()
	for c := range s.tunnels {
		_ = c.Close()
	}
}
