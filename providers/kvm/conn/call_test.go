package conn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// requireReason checks kind and reason of an error of this package.
func requireReason(t *testing.T, err error, kind providers.Kind, reason string) {
	t.Helper()
	require.Error(t, err)
	require.ErrorIs(t, err, kind, "%v", err)
	var e *providers.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, reason, e.Reason, "%v", err)
}

func TestCallAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{answer: func(c *client, h header, _ []byte) bool {
			if h.procedure == procLookupName {
				c.refuse(h, typeReply, libvirt.ErrNoDomain, "no domain with matching name 'd'")
			}
			return h.procedure == procLookupName
		}}
		h := d.host(t, nil)
		started(t, h)

		v, err := version(t.Context(), h)
		require.NoError(t, err)
		assert.Equal(t, uint64(9_000_000), v)

		err = lookup(t.Context(), h)
		requireReason(t, err, providers.NotFound, "")
		code, ok := Code(err)
		assert.True(t, ok)
		assert.Equal(t, libvirt.ErrNoDomain, code)
		assert.Contains(t, err.Error(), "host kvm1: DomainLookupByName: ")
		assert.Equal(t, "9.0.0", h.State().LibvirtVersion)
	})
}

func TestCallEndsAtItsDeadline(t *testing.T) {
	tests := map[string]struct {
		reason string
		limit  time.Duration
		want   time.Duration
	}{
		"of the context": {reason: "the caller's deadline is the earlier one", limit: time.Second, want: time.Second},
		"of the package": {reason: "a caller without a deadline must not hang", limit: time.Hour, want: 10 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &daemon{answer: silentOn(procLookupName)}
				h := d.host(t, nil)
				ev := started(t, h)
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				beside := make(chan error, 1)
				go func() { beside <- lookup(t.Context(), h) }()
				synctest.Wait()

				began := time.Now()
				err := lookup(ctx, h)
				assert.Equal(t, tt.want, time.Since(began), tt.reason)
				requireReason(t, err, providers.Unreachable, ReasonDeadlineExceeded)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if tt.limit < time.Hour {
					requireReason(t, <-beside, providers.Unreachable, ReasonConnectionLost)
				}

				require.Equal(t, Event{Kind: Disconnected}, <-ev)
				require.Equal(t, Event{Kind: Connected}, <-ev, "the connection is replaced")
				_, err = version(t.Context(), h)
				require.NoError(t, err)
				assert.Equal(t, int32(2), d.registered.Load(), "events are subscribed anew")
			})
		})
	}
}

func TestCancelledCallLeavesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{answer: silentOn(procLookupName)}
		h := d.host(t, nil)
		started(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		err := lookup(ctx, h)
		assert.Equal(t, time.Second, time.Since(began))
		requireReason(t, err, providers.Busy, ReasonCancelled)
		require.ErrorIs(t, err, context.Canceled)

		_, err = version(t.Context(), h)
		require.NoError(t, err)
		assert.Equal(t, 1, d.dials(), "a caller that lost interest says nothing about the host")

		time.Sleep(9*time.Second + closeGrace + time.Millisecond)
		synctest.Wait()
		_, err = version(t.Context(), h)
		requireReason(t, err, providers.Unreachable, ReasonConnectionLost)
		time.Sleep(time.Second)
		assert.Equal(t, 2, d.dials(), "but the call that it left behind has its limit")
	})
}

func TestAtMostFourCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flying, most atomic.Int32
		gate := make(chan struct{})
		d := &daemon{}
		d.answer = func(c *client, h header, _ []byte) bool {
			if h.procedure != procLookupName {
				return false
			}
			most.Store(max(most.Load(), flying.Add(1)))
			go func() {
				<-gate
				flying.Add(-1)
				c.refuse(h, typeReply, libvirt.ErrNoDomain, "none")
			}()
			return true
		}
		h := d.host(t, nil)
		started(t, h)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { assert.ErrorIs(t, lookup(t.Context(), h), providers.NotFound) })
		}
		synctest.Wait()
		assert.Equal(t, int32(maxCalls), flying.Load())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		requireReason(t, lookup(ctx, h), providers.Busy, ReasonTooManyCalls)

		for range 20 {
			gate <- struct{}{}
		}
		wg.Wait()
		assert.Equal(t, int32(maxCalls), most.Load())
		assert.Equal(t, 1, d.dials())
	})
}

func TestBreakerAnswersAtOnceAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		var refused error = &net.OpError{Op: "dial", Err: errTest}
		d.refuse.Store(&refused)
		h := d.host(t, nil)
		requireReason(t, h.State().Err, providers.Unreachable, ReasonConnecting)
		h.Start(nil)
		time.Sleep(10 * time.Minute)

		began := time.Now()
		_, err := version(t.Context(), h)
		requireReason(t, err, providers.Unreachable, ReasonConnectFailed)
		assert.Zero(t, time.Since(began), "nobody waits for a host that is down")
		s := h.State()
		assert.InDelta(t, 31, s.Attempts, 3, "about one attempt in 22 s, not more: %+v", s)
		assert.True(t, s.NextAttempt.After(time.Now()))

		d.refuse.Store(nil)
		time.Sleep(30 * time.Second)
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
		time.Sleep(time.Minute)
		for range 10 {
			began := time.Now()
			d.latest().Close()
			require.Equal(t, Event{Kind: Disconnected}, <-ev)
			requireReason(t, h.State().Err, providers.Unreachable, ReasonConnectionLost)
			require.Equal(t, Event{Kind: Connected}, <-ev)
			assert.Less(t, time.Since(began), time.Second)
			time.Sleep(stableAfter)
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
		time.Sleep(time.Minute)
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

func TestAgentCallsHaveTheirOwnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{answer: silentOn(procLookupName)}
		h := d.host(t, nil)
		started(t, h)
		agent := func(ctx context.Context) error {
			_, err := AgentCall(ctx, h, "DomainLookupByName", func(c *libvirt.Libvirt) (libvirt.Domain, error) { return c.DomainLookupByName("d") })
			return err
		}
		results := make(chan error, 3)
		began := time.Now()
		for range 3 {
			go func() { results <- agent(t.Context()) }()
		}
		synctest.Wait()
		assert.Equal(t, 2, d.dials())
		_, err := version(t.Context(), h)
		require.NoError(t, err)
		assert.Zero(t, time.Since(began), "silent guests cost the other calls nothing")
		for range 3 {
			require.Error(t, <-results)
		}
		assert.LessOrEqual(t, time.Since(began), 10*time.Second)
		_, err = version(t.Context(), h)
		require.NoError(t, err)
		assert.Equal(t, 1, h.State().Connects, "the main connection was never touched")
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{answer: silentOn(procLookupName)}
		h := d.host(t, nil)
		started(t, h)
		result := make(chan error, 1)
		go func() { result <- lookup(t.Context(), h) }()
		synctest.Wait()
		began := time.Now()
		h.Close()
		requireReason(t, <-result, providers.Unreachable, ReasonClosed)
		assert.Zero(t, time.Since(began))
		_, err := version(t.Context(), h)
		requireReason(t, err, providers.Unreachable, ReasonClosed)
	})
}

// cutter is a Hook.
type cutter struct{ before, after error }

func (c *cutter) Before(context.Context, string, string) error       { return c.before }
func (c *cutter) After(context.Context, string, string, error) error { return c.after }

func TestHookInjectsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served atomic.Int32
		d := &daemon{answer: func(_ *client, h header, _ []byte) bool {
			if h.procedure == procVersion {
				served.Add(1)
			}
			return false
		}}
		hook := &cutter{}
		h := d.host(t, func(c *Config) { c.Hook = hook })
		ev := started(t, h)
		had := served.Load()

		hook.before = &providers.Error{Kind: providers.Exhausted}
		_, err := version(t.Context(), h)
		require.ErrorIs(t, err, providers.Exhausted)
		assert.Equal(t, had, served.Load(), "before: the host never saw the call")

		hook.before, hook.after = nil, ErrCut
		_, err = version(t.Context(), h)
		requireReason(t, err, providers.Unreachable, ReasonConnectionLost)
		assert.Equal(t, had+1, served.Load(), "after: the host did it, the answer is lost")
		require.Equal(t, Event{Kind: Disconnected}, <-ev)
	})
}

func TestDecoderPanicCostsTheLinkOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&daemon{}).host(t, nil)
		ev := started(t, h)
		_, err := Call(t.Context(), h, "X", func(*libvirt.Libvirt) (int, error) { panic("makeslice: len out of range") })
		requireReason(t, err, providers.Unreachable, ReasonNotLibvirt)
		require.Equal(t, Event{Kind: Disconnected}, <-ev)
		require.Equal(t, Event{Kind: Connected}, <-ev)
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
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
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
