package simulated_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

var errBoom = errors.New("boom")

func TestRules(t *testing.T) {
	tests := map[string]struct {
		reason string
		rule   simulated.Rule
		fails  []bool // of three creates in a row of one machine
		parts  int    // on the host after the first
	}{
		"before the effect": {"the step has not happened", simulated.Rule{Step: simulated.StepSeed, Times: 1, Err: errBoom}, []bool{true, false, false}, 1},
		"after the effect":  {"the answer got lost", simulated.Rule{Step: simulated.StepSeed, When: simulated.After, Times: 1, Err: errBoom}, []bool{true, false, false}, 2},
		"k-th call":         {"counted from 1", simulated.Rule{Step: simulated.StepLookup, Nth: 2, Times: 1, Err: errBoom}, []bool{false, true, false}, 3},
		"from the k-th on":  {"Times 0 has no end", simulated.Rule{Step: simulated.StepLookup, Nth: 2, Err: errBoom}, []bool{false, true, true}, 3},
		"another call":      {"Delete's rule leaves Create alone", simulated.Rule{Op: simulated.OpDelete, Err: errBoom}, []bool{false, false, false}, 3},
		"another host":      {"h2's rule leaves h1 alone", simulated.Rule{Host: "h2", Err: errBoom}, []bool{false, false, false}, 3},
		"every step":        {"empty fields match all", simulated.Rule{Err: errBoom}, []bool{true, true, true}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, m := newProvider(t, simulated.Options{Port: 3921}), machine("u1")
			remove := p.Faults().Inject(tc.rule)
			for i, fails := range tc.fails {
				_, err := p.Create(t.Context(), m)
				assert.Equal(t, fails, errors.Is(err, errBoom), "create %d: %v: %s", i+1, err, tc.reason)
				if i == 0 {
					assert.Len(t, p.Faults().Leftovers(m), tc.parts, tc.reason)
				}
			}
			remove()
			_, err := p.Create(t.Context(), m)
			require.NoError(t, err, "a removed rule strikes no more")
		})
	}
}

func TestLatencyEndsWithTheContext(t *testing.T) {
	clock := newClock()
	p := newProvider(t, simulated.Options{Clock: clock})
	p.Faults().HostSlow("h1", time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	p.Faults().Inject(simulated.Rule{Op: simulated.OpGet, Do: cancel})
	_, err := p.Get(ctx, "simulated://h1/6f1c8a52-7f0e-5a0a-8d7c-0123456789ab")
	require.ErrorIs(t, err, providers.Unreachable)
	require.ErrorIs(t, err, context.Canceled)
}

func TestLatencyPassesOnTheClock(t *testing.T) {
	clock := newClock()
	p := newProvider(t, simulated.Options{Clock: clock})
	p.Faults().HostSlow("h1", time.Hour)
	done := make(chan error, 1)
	go func() {
		_, err := p.Get(t.Context(), "simulated://h1/6f1c8a52-7f0e-5a0a-8d7c-0123456789ab")
		done <- err
	}()
	require.Eventually(t, clock.HasWaiters, 5*time.Second, time.Millisecond)
	require.Empty(t, done, "it waits")
	clock.Step(time.Hour)
	require.ErrorIs(t, <-done, providers.NotFound)
}

func TestHostFaults(t *testing.T) {
	noPool := &providers.Error{Kind: providers.Busy, Reason: "PoolInactive", Msg: "pool default is inactive"}
	noNetwork := &providers.Error{Kind: providers.Busy, Reason: "NetworkInactive", Msg: "network default is inactive"}
	tests := map[string]struct {
		reason string
		order  func(f *simulated.Faults, on bool)
		create error
		status func(s providers.HostStatus) error
	}{
		"down": {
			"does not answer", func(f *simulated.Faults, on bool) { f.HostDown("h1", on) }, providers.Unreachable,
			func(s providers.HostStatus) error { return s.Connected },
		},
		"denied": {
			"refuses the credentials", func(f *simulated.Faults, on bool) { f.HostDenied("h1", on) }, providers.Denied,
			func(s providers.HostStatus) error { return s.Connected },
		},
		"no pool": {
			"storage is checked when a disk is made", func(f *simulated.Faults, on bool) { f.HostStorage("h1", when(on, noPool)) }, noPool,
			func(s providers.HostStatus) error { return s.Storage },
		},
		"no network": {
			"D11", func(f *simulated.Faults, on bool) { f.HostNetwork("h1", when(on, noNetwork)) }, noNetwork,
			func(s providers.HostStatus) error { return s.Network },
		},
		"full": {
			"D8: no new placement there", func(f *simulated.Faults, on bool) { f.HostFull("h1", on) }, providers.Exhausted,
			func(s providers.HostStatus) error {
				if s.Capacity.StorageFreeBytes == 0 {
					return providers.Exhausted
				}
				return nil
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, simulated.Options{Port: 3922})
			tc.order(p.Faults(), true)
			_, err := p.Create(t.Context(), machine("u1"))
			require.ErrorIs(t, err, tc.create, tc.reason)
			st, err := p.HostStatus(t.Context(), "h1")
			require.NoError(t, err)
			require.ErrorIs(t, tc.status(st), tc.create, tc.reason)

			tc.order(p.Faults(), false)
			st, err = p.HostStatus(t.Context(), "h1")
			require.NoError(t, err)
			require.NoError(t, tc.status(st), "healed")
			running(t, p, machine("u1"))
		})
	}
}

func when(on bool, err error) error {
	if on {
		return err
	}
	return nil
}

func TestMachineFaults(t *testing.T) {
	tests := map[string]struct {
		reason string
		order  func(f *simulated.Faults, id providers.ProviderID) error
		state  providers.State
		word   string
	}{
		"stopped from inside": {"G6", (*simulated.Faults).Stop, providers.StateStopped, "GuestShutdown"},
		"crashed":             {"cannot go on by itself", (*simulated.Faults).Crash, providers.StateFailed, "Crashed"},
		"disk I/O error":      {"D8: paused by a full pool is Failed, not Running", (*simulated.Faults).IOError, providers.StateFailed, "DiskIOError"},
		"paused":              {"an administrator's hand", (*simulated.Faults).Pause, providers.StatePaused, "PausedByUser"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, simulated.Options{Port: 3923})
			id, _ := running(t, p, machine("u1"))
			heard := listen(t, p)
			require.NoError(t, tc.order(p.Faults(), id))
			assert.Contains(t, heard(), providers.Event{Host: "h1", ID: id})
			s, err := p.Get(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, tc.state, s.State, tc.reason)
			assert.Equal(t, tc.word, s.Reason)
			assert.Empty(t, s.Addresses)
			again, _ := running(t, p, machine("u1"))
			assert.Equal(t, id, again, "Create brings the same machine back")
		})
	}
}

// listen collects what p tells its subscribers.
func listen(t *testing.T, p *simulated.Provider) func() []providers.Event {
	t.Helper()
	var got []providers.Event // the callers are in the test's own goroutine
	t.Cleanup(p.Subscribe(func(e providers.Event) { got = append(got, e) }))
	return func() []providers.Event { return got }
}

func TestVanishedMachineIsNotFound(t *testing.T) {
	p := newProvider(t, simulated.Options{Port: 3924})
	id, _ := running(t, p, machine("u1"))
	require.NoError(t, p.Faults().Vanish(id))
	_, err := p.Get(t.Context(), id)
	require.ErrorIs(t, err, providers.NotFound)
	require.ErrorIs(t, p.Faults().Stop(id), providers.NotFound, "a test that means nothing is told")
}

func TestImageErrorsHaveReasons(t *testing.T) {
	tests := map[string]struct {
		reason string
		size   int64
		err    error
		want   string
	}{
		"404":            {"D4", 0, simulated.ErrImageNotFound, "ImageNotFound"},
		"wrong checksum": {"D1", 0, simulated.ErrImageChecksum, "ImageChecksumMismatch"},
		"no image":       {"D4", 0, simulated.ErrImageUnsupported, "ImageInvalid"},
		"disk too small": {"D6", 1 << 40, nil, "DiskTooSmall"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, m := newProvider(t, simulated.Options{}), machine("u1")
			p.Faults().Image(m.Image.URL, tc.size, tc.err)
			s, err := p.Create(t.Context(), m)
			require.ErrorIs(t, err, providers.ErrPermanent, tc.reason)
			assert.Equal(t, tc.want, providers.OutcomeOf(err).Reason)
			assert.NotEmpty(t, s.ID, "the ID beside the error")
			assert.Empty(t, p.Faults().Leftovers(m))
		})
	}
}

func TestForeignMachinesAreCountedApart(t *testing.T) {
	p := newProvider(t, simulated.Options{Port: 3925})
	running(t, p, machine("u1"))
	p.Faults().PlantForeign(machine("u2"), simulated.SameName)
	s, err := p.HostStatus(t.Context(), "h1")
	require.NoError(t, err)
	assert.Equal(t, 1, s.Machines)
	assert.Equal(t, 1, s.ForeignMachines)
	assert.Equal(t, s.Capacity.StorageBytes-machine("").Resources.DiskBytes, s.Capacity.StorageFreeBytes)
}
