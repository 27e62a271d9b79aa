package conn

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// xdr concatenates words, padded strings and raw bytes.
func xdr(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch v := p.(type) {
		case int:
			b = append(b, words(uint32(v))...)
		case string:
			b = append(append(b, words(uint32(len(v)))...), v+strings.Repeat("\x00", (4-len(v)%4)%4)...)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

func TestWalker(t *testing.T) {
	const huge = 0x7fffffff
	id := make([]byte, 16)
	stats := xdr(2, "dom1", id, 1, 3, "state.state", 1, 5, "balloon.current", 4, 0, 512, "name", 7, "x", "dom22", id, -1, 1, "ok", 6, 1)
	tests := map[string]struct {
		reason string
		shape  reflect.Type
		body   []byte
		bad    bool
	}{
		"stats":              {"all kinds of values", reflect.TypeFor[libvirt.ConnectGetAllDomainStatsRet](), stats, false},
		"no stats":           {"a host without domains", reflect.TypeFor[libvirt.ConnectGetAllDomainStatsRet](), xdr(0), false},
		"domains":            {"list and count", reflect.TypeFor[libvirt.ConnectListAllDomainsRet](), xdr(1, "d", id, 3, 1), false},
		"lease":              {"optional strings", reflect.TypeFor[libvirt.NetworkGetDhcpLeasesRet](), xdr(1, "virbr0", 0, 99, 0, 1, "52:54", 0, "10.0.0.2", 24, 0, 1, "id", 1), false},
		"string":             {"XML", reflect.TypeFor[string](), xdr(strings.Repeat("x", 100_001)), false},
		"error":              {"a message", reflect.TypeFor[wireError](), xdr(42, 10, 1, "Domain not found", 2), false},
		"unknown value type": {"go-libvirt refuses it", reflect.TypeFor[libvirt.ConnectGetAllDomainStatsRet](), xdr(1, "d", id, 1, 1, "x", 99, 1, 2, 3), false},

		"domains without end": {"100 GiB in one word", reflect.TypeFor[libvirt.ConnectListAllDomainsRet](), xdr(huge, "d", id, 3, 1), true},
		"string without end":  {"2 GiB in one word", reflect.TypeFor[string](), xdr(huge, id), true},
		"inner string":        {"behind a good start", reflect.TypeFor[libvirt.ConnectListAllDomainsRet](), xdr(1, huge, id, 3, 1), true},
		"inner list":          {"of parameters", reflect.TypeFor[libvirt.ConnectGetAllDomainStatsRet](), xdr(1, "d", id, 1, huge), true},
		"parameter string":    {"in a value", reflect.TypeFor[libvirt.ConnectGetAllDomainStatsRet](), xdr(1, "d", id, 1, 1, "x", 7, huge), true},
		"error message":       {"in a refusal", reflect.TypeFor[wireError](), xdr(42, 10, 1, huge), true},
		"length 2^32-1":       {"must not overflow", reflect.TypeFor[string](), xdr(-1), true},
		"cut":                 {"less than the type needs", reflect.TypeFor[libvirt.Domain](), xdr("d", 1), true},
	}
	for name, tt := range tests {
		for _, size := range []int{1, 3, len(tt.body)} {
			t.Run(name, func(t *testing.T) {
				w := newWalker(tt.shape, int64(len(tt.body)))
				defer w.stop()
				var err error
				for rest := tt.body; len(rest) > 0 && err == nil; {
					n := min(size, len(rest))
					err = w.feed(rest[:n])
					rest = rest[n:]
				}
				if tt.bad {
					require.ErrorIs(t, err, errNotLibvirt, tt.reason)
				} else {
					require.NoError(t, err, tt.reason)
				}
			})
		}
	}
}

func TestHostileLengthsInAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		d.answer = func(c *client, h header, _ []byte) bool {
			if h.procedure == procLookupName {
				c.reply(h, xdr(0x7ffffff0, "name"))
			}
			return h.procedure == procLookupName
		}
		h := d.host(t, nil)
		started(t, h)
		before := heap()
		requireReason(t, lookup(t.Context(), h), providers.Unreachable, ReasonNotLibvirt)
		assert.Less(t, heap()-before, int64(8<<20))
	})
}
