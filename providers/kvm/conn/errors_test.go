package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func TestClassifyCodes(t *testing.T) {
	tests := map[string]struct {
		reason string
		code   libvirt.ErrorNumber
		text   string
		kind   providers.Kind
		want   string
	}{
		"no domain":       {"gone", 42, "Domain not found", providers.NotFound, ""},
		"no network":      {"host set-up", 43, "Network not found", providers.NotFound, ""},
		"no pool":         {"host set-up", 49, "Storage pool not found", providers.NotFound, ""},
		"no volume":       {"gone", 50, "Storage volume not found", providers.NotFound, ""},
		"no metadata":     {"not ours", 80, "metadata not found", providers.NotFound, ""},
		"read only":       {"the -ro socket", 29, "operation forbidden: read only access prevents virDomainDefineXML", providers.Denied, ReasonReadOnlySocket},
		"SASL":            {"auth_tcp", 39, "authentication required", providers.Denied, ReasonSASLRequired},
		"too long":        {"the same code: a message over 4 MiB", 39, "Unable to decode message payload", providers.Internal, ""},
		"polkit":          {"access driver", 88, "access denied", providers.Denied, ReasonPolkitDenied},
		"polkit agent":    {"nobody to ask", 94, "authentication unavailable: no polkit agent", providers.Denied, ReasonPolkitDenied},
		"polkit policy":   {"the other code", 45, "authentication failed: access denied by policy", providers.Denied, ReasonPolkitDenied},
		"no bus":          {"polkit cannot work", 1, "Unable to get system bus connection", providers.Denied, ReasonPolkitDenied},
		"pool full":       {"the disk of the host", 38, "cannot write data to file: No space left on device", providers.Exhausted, ReasonPoolFull},
		"system error":    {"anything else of the host", 38, "Cannot get interface MTU on 'br9': No such device", providers.Internal, ""},
		"async jobs":      {"an upload is under way", 1, "pool 'default' has asynchronous jobs running.", providers.Busy, ReasonPoolBusy},
		"internal":        {"qemu died", 1, "internal error: process exited", providers.Internal, ""},
		"bad xml":         {"the spec", 27, "XML error", providers.Invalid, ""},
		"bad config":      {"the spec on this host", 67, "unsupported configuration", providers.Invalid, ""},
		"state lock":      {"another job on the domain", 68, "Timed out during operation: cannot acquire state change lock", providers.Busy, ReasonOperationTimeout},
		"agent away":      {"usual while booting", 86, "Guest agent is not responding", providers.Busy, ReasonAgentUnresponsive},
		"no agent":        {"no channel in the domain", 74, "argument unsupported: QEMU guest agent is not configured", providers.NotFound, ReasonAgentNotConfigured},
		"argument":        {"the same code must not look like gone", 74, "argument unsupported: flag", providers.Internal, ""},
		"state":           {"five meanings", 55, "domain is not running", providers.Internal, ""},
		"operation fails": {"conflict or not", 9, "operation failed: domain 'x' already exists with uuid", providers.Internal, ""},
		"volume exists":   {"ours or not", 90, "storage volume 'x' exists already", providers.Internal, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cause := fmt.Errorf("look at %q: %w", "x", libvirt.Error{Code: uint32(tt.code), Message: tt.text})
			err := classify("kvm1", "DomainCreate", cause)
			requireReason(t, err, tt.kind, tt.want)
			code, ok := Code(fmt.Errorf("wrapped: %w", err))
			require.True(t, ok)
			assert.Equal(t, tt.code, code, tt.reason)
			assert.Equal(t, `host kvm1: DomainCreate: look at "x": `+tt.text, err.Error())
		})
	}
}

func TestClassifyOutcomes(t *testing.T) {
	tests := map[string]struct {
		reason string
		err    error
		kind   providers.Kind
		want   string
	}{
		"EINVAL":      {"go-libvirt's word for a closed connection, never a bad spec", syscall.EINVAL, providers.Unreachable, ReasonConnectionLost},
		"interrupted": {"closed while waiting", libvirt.ErrInterrupted, providers.Unreachable, ReasonConnectionLost},
		"EOF":         {"closed by the host", fmt.Errorf("%w: %w", libvirt.ErrInterrupted, io.EOF), providers.Unreachable, ReasonConnectionLost},
		"expired":     {"the host", context.DeadlineExceeded, providers.Unreachable, ReasonDeadlineExceeded},
		"cancelled":   {"the caller", context.Canceled, providers.Unreachable, ReasonCancelled},
		"unsupported": {"an old host", libvirt.ErrUnsupported, providers.Internal, ReasonUnsupported},
		"wrong peer":  {"found by the guard", fmt.Errorf("%w: %w", libvirt.ErrInterrupted, errNotLibvirt), providers.Unreachable, ReasonNotLibvirt},
		"unknown":     {"whatever it is", errTest, providers.Internal, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := classify("kvm1", "DomainCreate", tt.err)
			requireReason(t, err, tt.kind, tt.want)
			require.ErrorIs(t, err, tt.err, tt.reason)
			_, ok := Code(err)
			assert.False(t, ok)
		})
	}
	require.NoError(t, classify("kvm1", "x", nil))
	own := &providers.Error{Kind: providers.Exists, Msg: "foreign"}
	assert.Equal(t, errors.Join(own), classify("kvm1", "x", errors.Join(own)), "an error of the caller's own stays as it is")
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(m))
	m.retain("kvm1")
	m.retain("kvm2")
	m.retain("kvm2")
	m.connect("kvm1", nil)
	m.connect("kvm2", &providers.Error{Kind: providers.Denied, Reason: ReasonHostKeyChanged})
	m.disconnected("kvm2")
	m.inFlight("kvm1", "main", 1)
	m.failed("kvm1", &providers.Error{Kind: providers.NotFound})
	m.answered("kvm1", "DomainCreate", time.Second)
	assert.Equal(t, map[string]float64{
		"proxyard_libvirt_connected kvm1":                         1,
		"proxyard_libvirt_connected kvm2":                         0,
		"proxyard_libvirt_connects_total kvm1 ok":                 1,
		"proxyard_libvirt_connects_total kvm2 HostKeyChanged":     1,
		"proxyard_libvirt_calls_in_flight main kvm1":              1,
		"proxyard_libvirt_errors_total kvm1 not found":            1,
		"proxyard_libvirt_rpc_duration_seconds kvm1 DomainCreate": 1,
	}, series(t, r))
	m.release("kvm1")
	m.release("kvm2")
	assert.Len(t, series(t, r), 2, "kvm2 has a successor under its name")
	m.release("kvm2")
	assert.Empty(t, series(t, r), "a removed host leaves no series")
	var none *Metrics
	none.connect("kvm1", nil) // counts nothing, breaks nothing
	none.retain("kvm1")
	none.release("kvm1")
}

// series gathers "name label values…" and the value or, of a histogram, the sum.
func series(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return got
}
