package conn

import (
	"encoding/binary"
	"fmt"
	"iter"
	"reflect"

	"github.com/digitalocean/go-libvirt"
)

// answers gives the type of the answers that hold lengths, by procedure, for all that providers/kvm calls.
//
// go-libvirt's decoder allocates what a length announces before it looks for the data, so one word of a hostile answer could
// take all memory. The guard therefore follows such an answer as it passes, and ends the connection at a length that the rest
// of the frame cannot hold.
var answers = map[uint32]reflect.Type{
	7:   reflect.TypeFor[string](), // capabilities
	14:  reflect.TypeFor[string](), // XML of a domain
	23:  reflect.TypeFor[libvirt.Domain](),
	24:  reflect.TypeFor[libvirt.Domain](),
	43:  reflect.TypeFor[string](),          // XML of a network
	46:  reflect.TypeFor[libvirt.Network](), // by name
	59:  reflect.TypeFor[string](),          // host name
	66:  reflect.TypeFor[[]uint32](),        // kinds of authentication
	84:  reflect.TypeFor[libvirt.StoragePool](),
	88:  reflect.TypeFor[string](), // XML of a pool
	93:  reflect.TypeFor[libvirt.StorageVol](),
	95:  reflect.TypeFor[libvirt.StorageVol](),
	97:  reflect.TypeFor[libvirt.StorageVol](),
	99:  reflect.TypeFor[string](), // XML of a volume
	100: reflect.TypeFor[string](), // path of a volume
	162: reflect.TypeFor[string](), // CPU baseline
	265: reflect.TypeFor[string](), // metadata of a domain
	273: reflect.TypeFor[libvirt.ConnectListAllDomainsRet](),
	281: reflect.TypeFor[libvirt.ConnectListAllStoragePoolsRet](),
	282: reflect.TypeFor[libvirt.StoragePoolListAllVolumesRet](),
	283: reflect.TypeFor[libvirt.ConnectListAllNetworksRet](),
	341: reflect.TypeFor[libvirt.NetworkGetDhcpLeasesRet](),
	344: reflect.TypeFor[libvirt.ConnectGetAllDomainStatsRet](),
	350: reflect.TypeFor[libvirt.Domain](),
	353: reflect.TypeFor[libvirt.DomainInterfaceAddressesRet](),
}

// shapeOf gives the type of what follows a header, nil when it holds no lengths.
func shapeOf(h header) reflect.Type {
	switch {
	case h.status != statusOK && h.status != statusContinue:
		return reflect.TypeFor[wireError]()
	case h.kind != typeReply:
		return nil
	case h.program == programQEMU:
		return reflect.TypeFor[libvirt.QEMUDomainAgentCommandRet]()
	}
	return answers[h.procedure]
}

// wireError is the part of libvirt's error that go-libvirt decodes.
type wireError struct {
	Code, Domain, HasMessage uint32
	Message                  string
}

// walker follows the XDR of an answer piece by piece.
type walker struct {
	piece []byte
	left  int64 // bytes of the frame that were not walked yet
	more  func() bool
	err   error

	resume func() (struct{}, bool)
	stop   func()
}

// newWalker follows a body of n bytes that has the shape t.
func newWalker(t reflect.Type, n int64) *walker {
	w := &walker{left: n}
	w.resume, w.stop = iter.Pull(func(yield func(struct{}) bool) {
		w.more = func() bool { return yield(struct{}{}) }
		w.value(t)
	})
	return w
}

// feed takes the next piece; an error means that go-libvirt must not see it.
func (w *walker) feed(piece []byte) error {
	w.piece = piece
	w.resume()
	return w.err
}

// take consumes n bytes and returns the last of them, at most eight; ok is false when the walk is over.
func (w *walker) take(n int64) (last [8]byte, ok bool) {
	if n > w.left {
		if w.err == nil {
			w.err = fmt.Errorf("%w: an answer announces %d bytes where %d are left", errNotLibvirt, n, w.left)
		}
		return last, false
	}
	w.left -= n
	kept := last[:0]
	for n > 0 {
		if len(w.piece) == 0 && !w.more() {
			return last, false
		}
		k := min(n, int64(len(w.piece)))
		if n <= int64(len(last)) {
			kept = append(kept, w.piece[:k]...)
		}
		w.piece, n = w.piece[k:], n-k
	}
	return last, true
}

func (w *walker) word() (int64, bool) {
	b, ok := w.take(4)
	return int64(binary.BigEndian.Uint32(b[:])), ok
}

func (w *walker) opaque() bool {
	n, ok := w.word()
	if !ok {
		return false
	}
	_, ok = w.take((n + 3) / 4 * 4)
	return ok
}

// value walks over one value; false ends the walk, because of an error or of a type that no shape above has.
func (w *walker) value(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int32, reflect.Uint32, reflect.Bool, reflect.Uint8:
		_, ok := w.take(4)
		return ok
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		_, ok := w.take(8)
		return ok
	case reflect.String:
		return w.opaque()
	case reflect.Array: // of bytes: UUIDs
		_, ok := w.take(int64(t.Len()+3) / 4 * 4)
		return ok
	case reflect.Slice:
		return w.slice(t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[libvirt.TypedParam]() {
			return w.param()
		}
		for i := range t.NumField() {
			if !w.value(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

func (w *walker) slice(elem reflect.Type) bool {
	n, ok := w.word()
	if !ok {
		return false
	}
	if n*4 > w.left { // no element is smaller
		w.err = fmt.Errorf("%w: an answer announces %d elements where %d bytes are left", errNotLibvirt, n, w.left)
		return false
	}
	for range n {
		if !w.value(elem) {
			return false
		}
	}
	return true
}

// param is a name, a type and a value of that type.
func (w *walker) param() bool {
	if !w.opaque() {
		return false
	}
	kind, ok := w.word()
	if !ok {
		return false
	}
	switch kind {
	case 1, 2, 6: // int, unsigned, bool
		_, ok = w.take(4)
	case 3, 4, 5: // long, unsigned long, double
		_, ok = w.take(8)
	case 7:
		ok = w.opaque()
	default: // go-libvirt refuses it by itself
		ok = false
	}
	return ok
}
