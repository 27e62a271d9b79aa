// Package image opens cloud images behind a URL as verified streams: it looks at the first bytes before anything is stored,
// counts and hashes all of them, and says whether what went by is what the checksum names. The kvm provider's image cache
// is its caller. Nothing is kept on disk.
package image

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/definition"
)

// headerSize is how many bytes Detect wants: the boot sector of a raw disk, which also covers the qcow2 header.
const headerSize = 512

// Header is what the first bytes of an image say.
type Header struct {
	Format definition.Format
	// VirtualBytes is the size of the disk inside; 0 for raw, where it is the size of the file.
	VirtualBytes int64
}

// Offsets in the qcow2 header, big endian (QEMU's docs/interop/qcow2.txt).
const (
	qcowVersion      = 4
	qcowBackingAt    = 8
	qcowVirtualSize  = 24
	qcowCrypt        = 32
	qcowIncompatible = 72
	// externalData is the incompatible-feature bit that puts the guest's data into another file.
	externalData = 1 << 2
)

var (
	qcowMagic = []byte("QFI\xfb")
	// bootSignature ends the first sector of every disk that a PC can boot, protective MBR of a GPT disk included.
	bootSignature = []byte{0x55, 0xaa}
)

// packed are the formats that people serve images in and that a guest cannot boot as they are.
var packed = []struct {
	name  string
	magic []byte
}{
	{"gzip", []byte("\x1f\x8b")}, {"xz", []byte("\xfd7zXZ\x00")}, {"zstd", []byte("\x28\xb5\x2f\xfd")}, {"zip", []byte("PK\x03\x04")},
}

// Detect tells what kind of image starts with head (at least 512 bytes, fewer only where the image is shorter).
//
// Errors: Invalid with reason ImageInvalid, for whatever is no bootable disk image of its own: an HTML page, a packed
// image, a qcow2 that reads other files of the host.
func Detect(head []byte) (Header, error) {
	if bytes.HasPrefix(head, qcowMagic) {
		return detectQCOW2(head)
	}
	for _, p := range packed {
		if bytes.HasPrefix(head, p.magic) {
			return Header{}, invalid("the image is packed with %s; serve it unpacked", p.name)
		}
	}
	if len(head) < headerSize || !bytes.Equal(head[headerSize-2:headerSize], bootSignature) {
		return Header{}, invalid("what image.url answers is no disk image: neither qcow2 nor a raw disk with a boot sector")
	}
	return Header{Format: definition.FormatRaw}, nil
}

func detectQCOW2(head []byte) (Header, error) {
	if len(head) < headerSize {
		return Header{}, invalid("the qcow2 image ends within its header")
	}
	version := binary.BigEndian.Uint32(head[qcowVersion:])
	switch {
	case version != 2 && version != 3:
		return Header{}, invalid("qcow2 version %d is unknown", version)
	case binary.BigEndian.Uint64(head[qcowBackingAt:]) != 0:
		return Header{}, invalid("the qcow2 image has a backing file, which would be read from the hypervisor; flatten it with qemu-img convert")
	case binary.BigEndian.Uint32(head[qcowCrypt:]) != 0:
		return Header{}, invalid("the qcow2 image is encrypted")
	case version == 3 && binary.BigEndian.Uint64(head[qcowIncompatible:])&externalData != 0:
		return Header{}, invalid("the qcow2 image keeps its data in another file; flatten it with qemu-img convert")
	}
	size := binary.BigEndian.Uint64(head[qcowVirtualSize:])
	const most = 1 << 50 // 1 PiB: far beyond any image, far below overflow
	if size == 0 || size > most {
		return Header{}, invalid("the qcow2 image claims a disk of %d bytes", size)
	}
	return Header{Format: definition.FormatQCOW2, VirtualBytes: int64(size)}, nil
}

func invalid(format string, args ...any) error {
	return &providers.Error{Kind: providers.Invalid, Reason: ReasonInvalid, Msg: fmt.Sprintf(format, args...)}
}
