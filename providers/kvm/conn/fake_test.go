package conn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"
)

const (
	procOpen       = 1
	procAuthList   = 66
	procVersion    = 157
	procRegister   = 316
	procLookupName = 23
)

// daemon is a libvirtd at the level of frames: it lets clients in, answers version and pings, and leaves the rest to answer.
type daemon struct {
	version uint64
	// answer handles a frame that is not part of the opening; false leaves it to the daemon.
	answer func(c *client, h header, body []byte) bool
	// refuse ends dials with this error.
	refuse atomic.Pointer[error]

	opened     atomic.Int32
	registered atomic.Int32
	served     sync.WaitGroup

	mu      sync.Mutex
	clients []*client
}

// client is the daemon's end of one connection.
type client struct {
	net.Conn
	wmu sync.Mutex
}

func (c *client) frame(program, procedure, kind uint32, serial int32, status uint32, body []byte) {
	b := make([]byte, headerLen+len(body))
	for i, w := range []uint32{uint32(len(b)), program, 1, procedure, kind, uint32(serial), status} {
		binary.BigEndian.PutUint32(b[4*i:], w)
	}
	copy(b[headerLen:], body)
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_, _ = c.Write(b)
}

func (c *client) reply(h header, body []byte) {
	c.frame(h.program, h.procedure, typeReply, h.serial, statusOK, body)
}

// refuse answers with a libvirt error.
func (c *client) refuse(h header, kind uint32, code libvirt.ErrorNumber, text string) {
	b := words(uint32(code), 0, 1, uint32(len(text)))
	b = append(b, text...)
	b = append(b, make([]byte, (4-len(text)%4)%4)...)
	c.frame(h.program, h.procedure, kind, h.serial, 1, append(b, words(2)...))
}

func (c *client) event(id libvirt.UUID) {
	b := append(words(1, 1), 'd', 0, 0, 0)
	b = append(append(b, id[:]...), words(7, 2, 0)...)
	c.frame(programRemote, procEventLifecycle, typeMessage, 0, statusOK, b)
}

func words(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// dial is a Config.Dial that leads to the daemon without a network.
func (d *daemon) dial(context.Context, string, string) (net.Conn, error) {
	if err := d.refuse.Load(); err != nil {
		return nil, *err
	}
	near, far := net.Pipe()
	d.served.Go(func() { d.serve(far) })
	return near, nil
}

func (d *daemon) serve(raw net.Conn) {
	c := &client{Conn: raw}
	d.mu.Lock()
	d.clients = append(d.clients, c)
	d.mu.Unlock()
	defer raw.Close()
	for {
		h, body, err := readFrame(raw)
		if err != nil {
			return
		}
		if d.answer != nil && d.answer(c, h, body) {
			continue
		}
		d.standard(c, h)
	}
}

func (d *daemon) standard(c *client, h header) {
	switch h.procedure {
	case procAuthList:
		c.reply(h, words(0))
	case procOpen:
		d.opened.Add(1)
		c.reply(h, nil)
	case procRegister:
		d.registered.Add(1)
		c.reply(h, words(1))
	case procVersion:
		v := d.version
		if v == 0 {
			v = 9_000_000
		}
		c.reply(h, binary.BigEndian.AppendUint64(nil, v))
	default:
		c.refuse(h, typeReply, libvirt.ErrNoSupport, "not in the fake")
	}
}

func readFrame(r io.Reader) (header, []byte, error) {
	b := make([]byte, headerLen)
	if _, err := io.ReadFull(r, b); err != nil {
		return header{}, nil, err
	}
	h := parseHeader(b)
	body := make([]byte, h.length-headerLen)
	_, err := io.ReadFull(r, body)
	return h, body, err
}

func (d *daemon) latest() *client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients[len(d.clients)-1]
}

func (d *daemon) dials() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.clients)
}

// host makes a Host on the daemon, which is closed with the test.
func (d *daemon) host(t *testing.T, change func(*Config)) *Host {
	t.Helper()
	cfg := Config{Name: "kvm1", URI: "qemu+tcp://host/system", Dial: d.dial, Rand: func() float64 { return 0.5 }}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		h.Close()
		d.served.Wait()
	})
	return h
}

// events is an onEvent that a test can wait on.
type events chan Event

func (e events) note(ev Event) {
	select {
	case e <- ev:
	default:
	}
}

// started starts h and waits until it is connected.
func started(t *testing.T, h *Host) events {
	t.Helper()
	e := make(events, 10_000)
	h.Start(e.note)
	require.Equal(t, Event{Kind: Connected}, <-e)
	return e
}

// version is a call that the fake answers.
func version(ctx context.Context, h *Host) (uint64, error) {
	return Call(ctx, h, "ConnectGetLibVersion", (*libvirt.Libvirt).ConnectGetLibVersion)
}

// lookup is a call that the fake leaves to the test.
func lookup(ctx context.Context, h *Host) error {
	_, err := Call(ctx, h, "DomainLookupByName", func(c *libvirt.Libvirt) (libvirt.Domain, error) { return c.DomainLookupByName("d") })
	return err
}

// silentOn is an answer that swallows one procedure.
func silentOn(procedure uint32) func(*client, header, []byte) bool {
	return func(_ *client, h header, _ []byte) bool { return h.procedure == procedure }
}

var errTest = errors.New("test error")
