package conn

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func TestBreakerAnswersAtOnceAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		var refused error = &net.OpError{Op: "dial", Err: errTest}
		d.refuse.Store(&refused)
		h := d.host(t, nil)
		requireReason(t, h.State().Err, providers.Unreachable, ReasonConnecting)
		h.Start(nil)
		<-time.After(10 * time.Minute)

		began := time.Now()
		_, err := version(t.Context(), h)
		requireReason(t, err, providers.Unreachable, ReasonConnectFailed)
		assert.Zero(t, time.Since(began), "nobody waits for a host that is down")
		s := h.State()
		assert.InDelta(t, 31, s.Attempts, 3, "about one attempt in 22 s, not more: %+v", s)
		assert.True(t, s.NextAttempt.After(time.Now()))

		d.refuse.Store(nil)
		<-time.After(30 * time.Second)
		_, err = version(t.Context(), h)
		require.NoError(t, err)
		assert.Zero(t, h.State().Attempts)
	})
}

func TestLostConnectionIsReplacedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		h := d.host(t, nil)
		ev := started(t, h)
		<-time.After(time.Minute)
		for range 10 {
			began := time.Now()
			d.latest().Close()
			require.Equal(t, Event{Kind: Disconnected}, <-ev)
			requireReason(t, h.State().Err, providers.Unreachable, ReasonConnectionLost)
			require.Equal(t, Event{Kind: Connected}, <-ev)
			assert.Less(t, time.Since(began), time.Second)
			<-time.After(stableAfter)
		}
		assert.Equal(t, 11, h.State().Connects)
	})
}

func TestIdleConnectionIsPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		var pings atomic.Int32
		d := &daemon{}
		d.answer = func(_ *client, h header, _ []byte) bool {
			if h.procedure == procVersion {
				pings.Add(1)
			}
			return silent.Load()
		}
		h := d.host(t, nil)
		ev := started(t, h)
		<-time.After(time.Minute)
		assert.InDelta(t, 12, pings.Load(), 2)
		assert.Less(t, time.Since(h.State().LastSeen), 10*time.Second)

		silent.Store(true)
		began := time.Now()
		require.Equal(t, Event{Kind: Disconnected}, <-ev)
		assert.LessOrEqual(t, time.Since(began), 10*time.Second, "two pings' time")
		assert.ErrorContains(t, h.State().Err, "does not answer pings")
	})
}

func TestOpeningHasOneDeadline(t *testing.T) {
	tests := map[string]struct {
		reason string
		silent uint32
	}{
		"silent from the start": {reason: "a peer that accepts and says nothing", silent: procAuthList},
		"silent at open":        {reason: "the daemon hangs in its driver", silent: procOpen},
		"silent at events":      {reason: "registering is part of opening", silent: procRegister},
		"silent at version":     {reason: "so is the version", silent: procVersion},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &daemon{answer: silentOn(tt.silent)}
				h := d.host(t, nil)
				ev := make(events, 10)
				began := time.Now()
				h.Start(ev.note)
				require.Equal(t, Event{Kind: Disconnected}, <-ev)
				assert.Equal(t, 20*time.Second, time.Since(began), tt.reason)
				requireReason(t, h.State().Err, providers.Unreachable, ReasonConnectTimeout)
			})
		})
	}
}

func TestRefusalsAtOpening(t *testing.T) {
	tests := map[string]struct {
		reason string
		answer func(c *client, h header) bool
		ver    uint64
		kind   providers.Kind
		want   string
	}{
		"SASL": {
			reason: "go-libvirt cannot do SASL, and libvirtd says so at open",
			answer: func(c *client, h header) bool {
				if h.procedure == procOpen {
					c.refuse(h, typeReply, libvirt.ErrRPC, "authentication required")
				}
				return h.procedure == procOpen
			},
			kind: providers.Denied, want: ReasonSASLRequired,
		},
		"polkit": {
			reason: "no agent can be asked for a password",
			answer: func(c *client, h header) bool {
				if h.procedure == procAuthList {
					c.refuse(h, typeReply, libvirt.ErrAuthUnavailable, "authentication unavailable: no polkit agent available")
				}
				return h.procedure == procAuthList
			},
			kind: providers.Denied, want: ReasonPolkitDenied,
		},
		"closed": {
			reason: "the daemon hangs up",
			answer: func(c *client, h header) bool {
				if h.procedure == procOpen {
					c.Close()
				}
				return h.procedure == procOpen
			},
			kind: providers.Unreachable, want: ReasonConnectionLost,
		},
		"too old": {reason: "bulk statistics are missing", ver: 1_002_003, kind: providers.Unreachable, want: ReasonLibvirtTooOld},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &daemon{version: tt.ver, answer: func(c *client, h header, _ []byte) bool { return tt.answer != nil && tt.answer(c, h) }}
				h := d.host(t, nil)
				ev := make(events, 10)
				h.Start(ev.note)
				require.Equal(t, Event{Kind: Disconnected}, <-ev)
				requireReason(t, h.State().Err, tt.kind, tt.want)
			})
		})
	}
}

func TestHostWithoutEventsIsUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{answer: func(c *client, h header, _ []byte) bool {
			if h.procedure == procRegister {
				c.refuse(h, typeReply, libvirt.ErrNoSupport, "this function is not supported by the connection driver")
			}
			return h.procedure == procRegister
		}}
		h := d.host(t, nil)
		started(t, h)
		_, err := version(t.Context(), h)
		require.NoError(t, err)
	})
}

func TestEventsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		h := d.host(t, nil)
		ev := started(t, h)
		own := libvirt.UUID{1}
		d.latest().event(own)
		assert.Equal(t, Event{Kind: Lifecycle, UUID: own}, <-ev)

		c := d.latest()
		for i := range 10_000 {
			c.event(libvirt.UUID{2, byte(i % 10)})
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Second)
		assert.LessOrEqual(t, len(ev), 1100, "ten domains, ten bursts a second, ten seconds")
		assert.GreaterOrEqual(t, len(ev), 900)
		_, err := version(t.Context(), h)
		require.NoError(t, err, "1,000 events a second leave room for calls")
	})
}

func TestEventsOfManyDomainsBecomeOne(t *testing.T) {
	q := newEventQueue()
	for i := range 100_000 {
		q.push(libvirt.UUID{byte(i >> 16), byte(i >> 8), byte(i)})
	}
	assert.Len(t, q.due, maxBurst, "memory is bounded")
	assert.Equal(t, []Event{{Kind: Lifecycle}}, q.take())
	q.push(libvirt.UUID{1})
	q.push(libvirt.UUID{1})
	assert.Equal(t, []Event{{Kind: Lifecycle, UUID: libvirt.UUID{1}}}, q.take())
}

func TestRotationKeepsTheSuccessorsMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics()
		r := prometheus.NewPedanticRegistry()
		require.NoError(t, r.Register(m))
		use := func(c *Config) { c.Metrics = m }
		d := &daemon{}
		old := d.host(t, use)
		started(t, old)
		successor := d.host(t, use)
		started(t, successor)
		old.Close()
		assert.InDelta(t, 1, series(t, r)["proxyard_libvirt_connected kvm1"], 0)
	})
}
