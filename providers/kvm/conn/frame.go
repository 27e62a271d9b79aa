package conn

import (
	"encoding/binary"
	"fmt"

	"github.com/digitalocean/go-libvirt"
)

// The wire format, from libvirt's virnetprotocol.x: seven big-endian words, then the body. The length counts itself.
const (
	headerLen = 28

	// maxFrame is libvirt's own limit (VIR_NET_MESSAGE_MAX, 32 MiB and the length word).
	maxFrame = 32<<20 + 4
	// maxOpeningFrame holds until the daemon has let us in: the answers up to then are a few bytes, so a wrong peer
	// cannot make us allocate.
	maxOpeningFrame = 64 << 10

	programRemote    = 0x20008086
	programQEMU      = 0x20008087
	programKeepalive = 0x6b656570
	protocolVersion  = 1

	typeCall    = 0
	typeReply   = 1
	typeMessage = 2
	typeStream  = 3

	statusOK       = 0
	statusContinue = 2

	procUpload         = 208
	procDownload       = 209
	procEventLifecycle = 318
	procPing           = 1
	procPong           = 2
)

// header is the head of a frame.
type header struct {
	length, program, version, procedure, kind uint32
	serial                                    int32
	status                                    uint32
}

// parseHeader needs headerLen bytes.
func parseHeader(b []byte) header {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	return header{
		length: word(0), program: word(1), version: word(2), procedure: word(3), kind: word(4), serial: int32(word(5)), status: word(6),
	}
}

func checkLength(n, limit uint32) error {
	if n < headerLen || n > limit {
		return fmt.Errorf("%w: frame of %d bytes", errNotLibvirt, n)
	}
	return nil
}

// check refuses what no libvirt daemon sends to a client.
func (h header) check() error {
	known := h.program == programRemote || h.program == programQEMU || h.program == programKeepalive
	switch {
	case !known || h.version != protocolVersion:
		return fmt.Errorf("%w: program %#x version %d", errNotLibvirt, h.program, h.version)
	case h.kind < typeReply || h.kind > typeStream || h.status > statusContinue:
		return fmt.Errorf("%w: type %d status %d", errNotLibvirt, h.kind, h.status)
	}
	return nil
}

// pending is a call whose last frame has not come yet.
type pending struct {
	program, procedure uint32
	// streaming is set once a call with a stream was accepted, so that stream frames may follow.
	streaming bool
}

// hasStream tells which calls go on after their reply. Others with streams are not used here.
func (p pending) hasStream() bool {
	return p.program == programRemote && (p.procedure == procUpload || p.procedure == procDownload)
}

// next says what a frame means to the call that it names: whether it is the call's last, or whether no daemon sends it.
func (p pending) next(h header) (last bool, err error) {
	if h.program != p.program || h.procedure != p.procedure {
		return true, fmt.Errorf("%w: answer to procedure %d where %d was called", errNotLibvirt, h.procedure, p.procedure)
	}
	switch {
	case h.kind == typeReply && p.streaming, h.kind == typeStream && !p.streaming:
		return true, fmt.Errorf("%w: type %d out of order", errNotLibvirt, h.kind)
	case h.kind == typeReply:
		return !p.hasStream() || h.status != statusOK, nil
	default: // a download also ends with an empty frame that says "continue"
		return h.status != statusContinue || h.length == headerLen, nil
	}
}

var pong = func() [headerLen]byte {
	var b [headerLen]byte
	for i, w := range []uint32{headerLen, programKeepalive, protocolVersion, procPong, typeMessage, 0, 0} {
		binary.BigEndian.PutUint32(b[4*i:], w)
	}
	return b
}()

// eventUUID reads the domain's UUID out of the start of a lifecycle event: callback id, name, UUID.
func eventUUID(body []byte) (libvirt.UUID, bool) {
	var id libvirt.UUID
	if len(body) < 8 {
		return id, false
	}
	name := int64(binary.BigEndian.Uint32(body[4:]))
	start := 8 + (name+3)/4*4
	if start+int64(len(id)) > int64(len(body)) {
		return id, false
	}
	copy(id[:], body[start:])
	return id, true
}
