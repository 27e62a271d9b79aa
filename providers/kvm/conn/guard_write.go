package conn

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// outgoing is the state of the writing half: where in a frame the stream is.
type outgoing struct {
	mu      sync.Mutex
	partial []byte // the start of a header that is not complete yet; held back
	left    uint64 // bytes of the current frame that are still to come
	pongDue atomic.Bool
}

// Write implements net.Conn for go-libvirt, which writes one frame after the other in pieces of any size.
//
// It never returns an error: go-libvirt's caller would leave before its answer is routed, and an answer that comes
// nevertheless would block the reader for ever. A failed write ends the connection, which frees every caller.
func (g *guard) Write(p []byte) (int, error) {
	g.out.mu.Lock()
	g.send(p)
	g.out.mu.Unlock()
	g.flushPong()
	return len(p), nil
}

func (g *guard) send(p []byte) {
	if g.cause() != nil {
		return
	}
	out := p
	if len(g.out.partial) > 0 {
		out = slices.Concat(g.out.partial, p)
		g.out.partial = nil
	}
	whole := g.scan(out)
	g.out.partial = append([]byte(nil), out[whole:]...)
	if _, err := g.raw.Write(out[:whole]); err != nil {
		g.fail(err)
	}
}

// scan follows the frames in b, notes the calls in them, and returns how much of b can go out: all but the start of an
// incomplete header. A call is noted before it is sent, because its answer may be faster than our Write returns.
func (g *guard) scan(b []byte) int {
	at := 0
	for {
		if g.out.left > 0 {
			n := min(g.out.left, uint64(len(b)-at))
			at += int(n)
			g.out.left -= n
		}
		if len(b)-at < headerLen {
			return at
		}
		h := parseHeader(b[at:])
		if h.length < headerLen {
			g.fail(net.ErrClosed) // cannot be: go-libvirt made it
			return at
		}
		g.out.left = uint64(h.length)
		if h.kind == typeCall {
			g.mu.Lock()
			g.waiting[h.serial] = pending{program: h.program, procedure: h.procedure}
			g.mu.Unlock()
		}
	}
}

// flushPong sends the PONG that is due, between two frames. Who holds the lock sends it afterwards.
func (g *guard) flushPong() {
	for g.out.pongDue.Load() && g.out.mu.TryLock() {
		between := g.out.left == 0 && len(g.out.partial) == 0
		if between {
			g.out.pongDue.Store(false)
			if _, err := g.raw.Write(pong[:]); err != nil {
				g.fail(err)
			}
		}
		g.out.mu.Unlock()
		if !between {
			return
		}
	}
}

// LocalAddr implements net.Conn.
func (g *guard) LocalAddr() net.Addr { return g.raw.LocalAddr() }

// RemoteAddr implements net.Conn.
func (g *guard) RemoteAddr() net.Addr { return g.raw.RemoteAddr() }

// SetDeadline implements net.Conn. Deadlines are not used: an ssh channel has none.
func (g *guard) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (g *guard) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (g *guard) SetWriteDeadline(time.Time) error { return nil }
