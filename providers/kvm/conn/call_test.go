package conn

import (
	"context"
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
		requireReason(t, err, providers.Unreachable, ReasonCancelled)
		require.ErrorIs(t, err, context.Canceled)

		_, err = version(t.Context(), h)
		require.NoError(t, err)
		assert.Equal(t, 1, d.dials(), "a caller that lost interest says nothing about the host")

		<-time.After(9*time.Second + closeGrace + time.Millisecond)
		synctest.Wait()
		_, err = version(t.Context(), h)
		requireReason(t, err, providers.Unreachable, ReasonConnectionLost)
		<-time.After(time.Second)
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
