package conn

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// peer listens on loopback and runs serve on every connection; the connections are closed with the test.
func peer(t *testing.T, serve func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			go func() {
				defer stop()
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// frames renders headers without bodies; n is the length word.
func frames(ws ...[7]uint32) string {
	var b []byte
	for _, w := range ws {
		b = append(b, words(w[:]...)...)
	}
	return string(b)
}

func TestHostilePeers(t *testing.T) {
	say := func(s string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = c.Write([]byte(s))
			_, _ = c.Read(make([]byte, 1<<10))
			_, _ = c.Read(make([]byte, 1<<10))
		}
	}
	without := func(s string) func(net.Conn) {
		return func(c net.Conn) {
			for {
				if _, err := c.Write([]byte(s)); err != nil {
					return
				}
			}
		}
	}
	tests := map[string]struct {
		reason string
		serve  func(net.Conn)
		want   string
	}{
		"ssh":              {"the banner would be a length of 1.3 GiB", say("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"), ReasonNotLibvirt},
		"short ssh banner": {"shorter than a header, then silence", say("SSH-2.0-x\r\n"), ReasonNotLibvirt},
		"http":             {"answers to our first frame", say("HTTP/1.1 400 Bad Request\r\n\r\n"), ReasonNotLibvirt},
		"tls":              {"an alert of seven bytes", say("\x15\x03\x03\x00\x02\x02\x46"), ReasonNotLibvirt},
		"length 0":         {"go-libvirt panics on it", say(string(make([]byte, 64))), ReasonNotLibvirt},
		"length 27":        {"go-libvirt panics on it", say(frames([7]uint32{27, programRemote, 1, procAuthList, 1, 1, 0})), ReasonNotLibvirt},
		"length 2^31":      {"2 GiB would be allocated", say(frames([7]uint32{1 << 31, programRemote, 1, procAuthList, 1, 1, 0})), ReasonNotLibvirt},
		"32 MiB at once":   {"no answer to the opening is that long", say(frames([7]uint32{32 << 20, programRemote, 1, procAuthList, 1, 1, 0})), ReasonNotLibvirt},
		"unknown program":  {"valid frames without end", without(frames([7]uint32{28, 0x20008099, 1, 1, 1, 1, 0})), ReasonNotLibvirt},
		"wrong version":    {"a protocol that is not ours", without(frames([7]uint32{28, programRemote, 2, 1, 1, 1, 0})), ReasonNotLibvirt},
		"calls":            {"a daemon does not call", say(frames([7]uint32{28, programRemote, 1, 1, typeCall, 1, 0})), ReasonNotLibvirt},
		"pings":            {"each wants an answer", without(frames([7]uint32{28, programKeepalive, 1, procPing, typeMessage, 0, 0})), ReasonConnectTimeout},
		"stray replies":    {"nobody waits for them", without(frames([7]uint32{28, programRemote, 1, 1, typeReply, 77, 0})), ReasonConnectTimeout},
		"stray events":     {"go-libvirt would queue them", without(frames([7]uint32{28, programRemote, 1, procEventLifecycle, typeMessage, 0, 0})), ReasonConnectTimeout},
		"one byte a time": {"never a whole frame", func(c net.Conn) {
			for _, b := range []byte(frames([7]uint32{28, programRemote, 1, procAuthList, 1, 1, 0})) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				<-time.After(100 * time.Millisecond)
			}
		}, ReasonConnectTimeout},
		"silence": {"accepts and is stopped", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_, _ = c.Read(make([]byte, 1<<20))
			<-time.After(time.Second)
		}, ReasonConnectTimeout},
		"hangs up": {"closes at once", func(net.Conn) {}, ReasonConnectionLost},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := New(Config{Name: "kvm1", URI: "qemu+tcp://" + peer(t, tt.serve) + "/system", Limits: Limits{Connect: 300 * time.Millisecond, BackoffMin: time.Hour, BackoffMax: time.Hour}})
			require.NoError(t, err)
			defer h.Close()
			before := heap()
			ev := make(events, 10)
			began := time.Now()
			h.Start(ev.note)
			require.Equal(t, Event{Kind: Disconnected}, <-ev)
			assert.Less(t, time.Since(began), 1300*time.Millisecond, tt.reason) // a second for a busy machine; virtual time checks it exactly
			requireReason(t, h.State().Err, providers.Unreachable, tt.want)
			assert.Less(t, heap()-before, int64(8<<20), "bytes allocated: %s", tt.reason)
		})
	}
}

// heap is what was allocated in total, so that a collection in between hides nothing.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// An answer that comes twice would block go-libvirt's reader for ever: the second finds a caller that has left.
func TestDoubledAnswersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		d.answer = func(c *client, h header, _ []byte) bool {
			d.standard(c, h)
			d.standard(c, h)
			return true
		}
		h := d.host(t, nil)
		started(t, h)
		for range 1000 {
			_, err := version(t.Context(), h)
			require.NoError(t, err)
		}
		l, err := h.current()
		require.NoError(t, err)
		l.guard.mu.Lock()
		defer l.guard.mu.Unlock()
		assert.Empty(t, l.guard.waiting, "a call is forgotten with its last frame")
	})
}

func TestAnswersBeforeTheQuestionAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		h := d.host(t, nil)
		started(t, h)
		for serial := range int32(100) {
			d.latest().frame(programRemote, procLookupName, typeReply, 1000+serial, statusOK, nil)
		}
		_, err := version(t.Context(), h)
		require.NoError(t, err)
	})
}

func TestAnswerToAnotherProcedureEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		d.answer = func(c *client, h header, _ []byte) bool {
			if h.procedure == procLookupName {
				c.frame(programRemote, procVersion, typeReply, h.serial, statusOK, make([]byte, 8))
			}
			return h.procedure == procLookupName
		}
		h := d.host(t, nil)
		started(t, h)
		requireReason(t, lookup(t.Context(), h), providers.Unreachable, ReasonNotLibvirt)
	})
}

func TestPingsAreAnsweredBetweenFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pongs atomic.Int32
		d := &daemon{}
		d.answer = func(_ *client, h header, _ []byte) bool {
			if h.program != programKeepalive {
				return false
			}
			assert.Equal(t, header{length: headerLen, program: programKeepalive, version: 1, procedure: procPong, kind: typeMessage}, h)
			pongs.Add(1)
			return true
		}
		h := d.host(t, nil)
		started(t, h)
		go func() {
			for range 50 {
				d.latest().frame(programKeepalive, procPing, typeMessage, 0, statusOK, nil)
				<-time.After(time.Millisecond)
			}
		}()
		for range 50 {
			_, err := version(t.Context(), h)
			require.NoError(t, err, "the fake reads frames one after the other, so a PONG within one would break it")
			<-time.After(time.Millisecond)
		}
		assert.Greater(t, pongs.Load(), int32(10))
	})
}

func TestWritesGoOutAsWholeHeaders(t *testing.T) {
	frame := words(32, programRemote, 1, 23, typeCall, 5, 0, 0xabcdabcd)
	two := append(append([]byte{}, frame...), words(28, programRemote, 1, 24, typeCall, 6, 0)...)
	tests := map[string]struct {
		reason string
		cuts   []int
	}{
		"whole":          {"the usual case", nil},
		"byte by byte":   {"go-libvirt may flush anywhere", []int{1, 2, 3, 4, 5, 20, 27, 28, 29, 31, 32, 33}},
		"within headers": {"a large payload fills the buffer", []int{30, 40}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := &recorder{}
			g := newGuard(out, nil)
			from := 0
			for _, to := range append(tt.cuts, len(two)) {
				n, err := g.Write(two[from:to])
				require.NoError(t, err)
				require.Equal(t, to-from, n)
				from = to
			}
			assert.Equal(t, two, out.data, tt.reason)
			assert.Equal(t, map[int32]pending{5: {program: programRemote, procedure: 23}, 6: {program: programRemote, procedure: 24}}, g.waiting)
		})
	}
}

// recorder is a net.Conn that keeps what is written.
type recorder struct {
	net.Conn
	data []byte
	err  error
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.data = append(r.data, p...)
	return len(p), nil
}
func (r *recorder) Close() error { return nil }

func TestFailedWriteIsNotShownToTheLibrary(t *testing.T) {
	g := newGuard(&recorder{err: errTest}, nil)
	n, err := g.Write(words(28, programRemote, 1, 23, typeCall, 5, 0))
	require.NoError(t, err, "its caller would leave while an answer may still come")
	assert.Equal(t, headerLen, n)
	require.ErrorIs(t, g.cause(), errTest)
}

func TestEventUUID(t *testing.T) {
	id := libvirt.UUID{1, 2, 3}
	event := func(name string) []byte {
		b := append(words(1, uint32(len(name))), name+strings.Repeat("\x00", (4-len(name)%4)%4)...)
		return append(append(b, id[:]...), words(1, 2, 3)...)
	}
	tests := map[string]struct {
		reason string
		body   []byte
		ok     bool
	}{
		"padded name":   {"strings fill up to four bytes", event("abcde"), true},
		"even name":     {"no padding", event("abcd"), true},
		"no name":       {"empty string", event(""), true},
		"empty":         {"nothing there", nil, false},
		"cut":           {"the UUID is not complete", event("abcd")[:20], false},
		"length 2^32-1": {"must not overflow", binary.BigEndian.AppendUint32(words(1), 0xffffffff), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := eventUUID(tt.body)
			require.Equal(t, tt.ok, ok, tt.reason)
			if ok {
				assert.Equal(t, id, got)
			}
		})
	}
}
