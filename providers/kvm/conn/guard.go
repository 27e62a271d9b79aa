package conn

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/digitalocean/go-libvirt"
	"golang.org/x/time/rate"
)

// guard stands between go-libvirt and the wire. go-libvirt reads lengths without a limit, routes frames to callers that may
// be gone (which deadlocks its reader), and never answers pings. The guard therefore lets a frame pass only while a call waits
// for it. It forgets a call with its last frame: what comes later names no call and is dropped, so that memory is bounded by
// the calls in flight. Frames pass through piece by piece and are never held as a whole.
//
// Lifecycle events end here: go-libvirt would queue them without bound.
type guard struct {
	raw     net.Conn
	in      *bufio.Reader
	onEvent func(libvirt.UUID)
	limit   atomic.Uint32
	lastIn  atomic.Int64 // Unix nanoseconds, see lastSeen

	// noise slows down a peer that sends what nobody waits for; the backlog stays in that peer's own socket.
	noise *rate.Limiter

	mu      sync.Mutex
	waiting map[int32]pending

	ctx  context.Context //nolint:containedctx // ends with the connection, for waits inside Read
	stop context.CancelCauseFunc

	// head and body are what is left of the frame that passes to the reader.
	head    []byte
	headBuf [headerLen]byte
	body    int64
	// early holds stream frames that came before the reply of their call: libvirtd sends both from different threads, and
	// go-libvirt would take the first frame for the reply and lose its data. replay is set once that reply has passed.
	early  bytes.Buffer
	replay bool

	walk *walker // of the current frame, nil when its answer holds no lengths

	out outgoing
}

const (
	// noisePerSecond is far above a busy host's events (a boot makes about ten).
	noisePerSecond = 5000
	readBuffer     = 32 << 10
	// maxEarly is far above what was seen (one frame of 256 KiB).
	maxEarly = 4 << 20
	// maxEventFrame: more is a domain name that we cannot have given.
	maxEventFrame = 4 << 10
)

func newGuard(raw net.Conn, onEvent func(libvirt.UUID)) *guard {
	g := &guard{
		raw: raw, in: bufio.NewReaderSize(raw, readBuffer), onEvent: onEvent, waiting: map[int32]pending{},
		noise: rate.NewLimiter(noisePerSecond, noisePerSecond),
	}
	g.ctx, g.stop = context.WithCancelCause(context.Background())
	g.limit.Store(maxOpeningFrame)
	g.lastIn.Store(time.Now().UnixNano())
	return g
}

// opened lifts the limit of the opening.
func (g *guard) opened() { g.limit.Store(maxFrame) }

// lastSeen is when the peer last sent something that we read.
func (g *guard) lastSeen() time.Time { return time.Unix(0, g.lastIn.Load()) }

// dead is closed when the connection has ended.
func (g *guard) dead() <-chan struct{} { return g.ctx.Done() }

// cause says why the connection ended, nil while it lives.
func (g *guard) cause() error { return context.Cause(g.ctx) }

// fail ends the connection; the first cause wins. It never waits for the peer.
func (g *guard) fail(cause error) {
	g.stop(cause)
	_ = g.raw.Close()
}

// Close implements net.Conn.
func (g *guard) Close() error {
	g.fail(net.ErrClosed)
	return nil
}

// guardError hides what kind of error ended the connection: go-libvirt would read on for ever after a *net.OpError that calls
// itself temporary.
type guardError struct{ cause error }

func (e guardError) Error() string { return e.cause.Error() }

// Read implements net.Conn for go-libvirt's one reader.
func (g *guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(g.head) == 0 && g.body == 0 {
		if err := g.nextFrame(); err != nil {
			g.fail(err)
			return 0, guardError{g.cause()}
		}
	}
	if len(g.head) > 0 {
		n := copy(p, g.head)
		g.head = g.head[n:]
		return n, nil
	}
	n, err := g.in.Read(p[:min(int64(len(p)), g.body)])
	g.body -= int64(n)
	g.lastIn.Store(time.Now().UnixNano())
	if n > 0 {
		err = g.follow(p[:n])
	}
	if err != nil {
		g.endWalk()
		g.fail(err)
		return 0, guardError{g.cause()}
	}
	return n, nil
}

// follow checks a piece of a body against the shape of its answer.
func (g *guard) follow(piece []byte) error {
	if g.walk == nil {
		return nil
	}
	err := g.walk.feed(piece)
	if g.body == 0 {
		g.endWalk()
	}
	return err
}

func (g *guard) endWalk() {
	if g.walk != nil {
		g.walk.stop()
		g.walk = nil
	}
}

// nextFrame takes one frame from the wire and either lets it pass or deals with it here.
func (g *guard) nextFrame() error {
	if g.replay {
		g.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(g.early.Bytes())), g.in), readBuffer)
		g.early.Reset()
		g.replay = false
	}
	buf := g.headBuf[:] // nothing of it is left, see Read
	// The length alone already tells a short banner from a frame; the rest of a header might never come.
	start, err := g.in.Peek(4)
	if err != nil {
		return err
	}
	if err := checkLength(binary.BigEndian.Uint32(start), g.limit.Load()); err != nil {
		return err
	}
	if _, err := io.ReadFull(g.in, buf); err != nil {
		return fmt.Errorf("%w within a frame", io.EOF)
	}
	h := parseHeader(buf)
	if err := h.check(); err != nil {
		return err
	}
	g.lastIn.Store(time.Now().UnixNano())
	fate, err := g.expected(h)
	if err != nil {
		return err
	}
	if fate == hold {
		return g.hold(buf, int64(h.length)-headerLen)
	}
	if fate == pass {
		g.head, g.body = buf, int64(h.length)-headerLen
		if t := shapeOf(h); t != nil && g.body > 0 {
			g.walk = newWalker(t, g.body)
		}
		return nil
	}
	return g.unexpected(h)
}

// hold keeps a stream frame until the reply of its call has passed.
func (g *guard) hold(head []byte, body int64) error {
	if int64(g.early.Len())+body > maxEarly {
		return fmt.Errorf("%w: more than %d bytes of a stream before its reply", errNotLibvirt, maxEarly)
	}
	g.early.Write(head)
	if _, err := io.CopyN(&g.early, g.in, body); err != nil {
		return fmt.Errorf("%w within a frame", io.EOF)
	}
	return nil
}

// fate is what becomes of a frame.
type fate int

const (
	drop fate = iota // nobody waits for it
	pass
	hold // somebody waits for it, but for another one first
)

// expected tells whether a call waits for this frame, and forgets the call with its last one.
func (g *guard) expected(h header) (fate, error) {
	if h.kind == typeMessage || h.program == programKeepalive {
		return drop, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	call, ok := g.waiting[h.serial]
	if !ok {
		return drop, nil
	}
	if h.kind == typeStream && !call.streaming && call.hasStream() {
		return hold, nil
	}
	last, err := call.next(h)
	if err != nil {
		return drop, err
	}
	g.replay = g.replay || h.kind == typeReply && g.early.Len() > 0
	if last {
		delete(g.waiting, h.serial)
	} else {
		call.streaming = true
		g.waiting[h.serial] = call
	}
	return pass, nil
}

// unexpected handles pings and events, and drops the rest.
func (g *guard) unexpected(h header) error {
	if err := g.noise.Wait(g.ctx); err != nil {
		return fmt.Errorf("%w: %w", net.ErrClosed, err)
	}
	rest := int64(h.length) - headerLen
	switch {
	case h.program == programKeepalive && h.procedure == procPing:
		// Not from here: a peer that does not read while it writes would stop the reader.
		if g.out.pongDue.CompareAndSwap(false, true) {
			go g.flushPong()
		}
	case h.program == programRemote && h.kind == typeMessage && h.procedure == procEventLifecycle && rest <= maxEventFrame:
		body := make([]byte, rest)
		if _, err := io.ReadFull(g.in, body); err != nil {
			return err
		}
		if id, ok := eventUUID(body); ok && g.onEvent != nil {
			g.onEvent(id)
		}
		return nil
	}
	_, err := g.in.Discard(int(rest))
	return err
}
