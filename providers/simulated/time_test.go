package simulated_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

// The life of a machine on a host that takes its time: each wait is InProgress or visible, and ends with an event.
func TestLifeTakesTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	clock := newClock()
	p := newProvider(t, simulated.Options{Clock: clock, Port: 3931, ImageTime: time.Minute, BootTime: time.Minute, StopTime: time.Minute})
	defer p.Close()
	events := make(chan providers.Event, 64)
	defer p.Subscribe(func(e providers.Event) { events <- e })()
	m := machine("u1")
	told := func(id providers.ProviderID) { // without asking: the timer itself must tell
		t.Helper()
		select {
		case e := <-events:
			assert.Equal(t, providers.Event{Host: "h1", ID: id}, e)
		case <-time.After(5 * time.Second):
			require.Fail(t, "no event")
		}
	}

	s, err := p.Create(t.Context(), m)
	require.ErrorIs(t, err, providers.InProgress)
	assert.Equal(t, "DownloadingImage", providers.OutcomeOf(err).Reason)
	id := s.ID
	clock.Step(time.Minute)
	told(id)
	s, err = p.Create(t.Context(), m)
	require.NoError(t, err)
	told(id)
	assert.Equal(t, providers.StateRunning, s.State)
	assert.Empty(t, s.Addresses, "it boots")
	r, err := p.Boot(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, providers.CloudInitRunning, r.CloudInit)

	clock.Step(time.Minute)
	told(id)
	s, err = p.Get(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, s.Addresses, 1)
	r, err = p.Boot(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, providers.CloudInitDone, r.CloudInit)

	require.ErrorIs(t, p.Delete(t.Context(), id), providers.InProgress)
	told(id)
	require.ErrorIs(t, p.Delete(t.Context(), id), providers.InProgress, "it still shuts down")
	clock.Step(time.Minute)
	told(id)
	require.NoError(t, p.Delete(t.Context(), id))
	told(id)
}

func TestAStopDuringTheBootStaysAStop(t *testing.T) {
	clock := newClock()
	p := newProvider(t, simulated.Options{Clock: clock, BootTime: time.Minute})
	s, err := p.Create(t.Context(), machine("u1"))
	require.NoError(t, err)
	require.NoError(t, p.Faults().Stop(s.ID))
	clock.Step(time.Hour)
	s, err = p.Get(t.Context(), s.ID)
	require.NoError(t, err)
	assert.Equal(t, providers.StateStopped, s.State)
	assert.Empty(t, s.Addresses)
}

func TestACrashedManagersDownloadIsForgotten(t *testing.T) {
	clock := newClock()
	w := simulated.NewWorld(clock)
	defer w.Close()
	o := simulated.Options{World: w, ImageTime: time.Minute, Port: 3932}
	first := newProvider(t, o)
	_, err := first.Create(t.Context(), machine("u1"))
	require.ErrorIs(t, err, providers.InProgress)
	first.Close()
	_, err = first.Create(t.Context(), machine("u1"))
	require.ErrorIs(t, err, providers.Internal, "the dead do not answer")
	clock.Step(time.Hour)

	second := newProvider(t, o)
	_, err = second.Create(t.Context(), machine("u1"))
	require.ErrorIs(t, err, providers.InProgress, "D1: half a download is none")
	clock.Step(time.Minute)
	running := func() providers.Status {
		s, err := second.Create(t.Context(), machine("u1"))
		require.NoError(t, err)
		return s
	}
	assert.Equal(t, providers.StateRunning, running().State)
	second.Close()
	third := newProvider(t, o)
	s, err := third.Get(t.Context(), onlyMachine(t, third))
	require.NoError(t, err, "machines outlive their manager")
	assert.Len(t, s.Addresses, 1)
}

// onlyMachine finds the one machine of the installation.
func onlyMachine(t *testing.T, p *simulated.Provider) providers.ProviderID {
	t.Helper()
	l, err := p.ListByTag(t.Context(), providers.Tag{ClusterID: simulated.DefaultClusterID})
	require.NoError(t, err)
	require.Len(t, l.Machines, 1)
	return l.Machines[0].ID
}

func TestGuest(t *testing.T) {
	p := newProvider(t, simulated.Options{Port: 3933})
	id, _ := running(t, p, machine("u1"))
	require.NoError(t, p.Faults().Console(id, "the end"))
	tail, err := p.ConsoleTail(t.Context(), id, 7)
	require.NoError(t, err)
	assert.Equal(t, "the end", tail)
	tail, err = p.ConsoleTail(t.Context(), id, 1<<20)
	require.NoError(t, err)
	assert.Contains(t, tail, "cloud-init: finished")

	failed := providers.BootReport{CloudInit: providers.CloudInitError, Errors: []string{"runcmd failed"}}
	require.NoError(t, p.Faults().Boot(id, failed))
	r, err := p.Boot(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, failed, r)

	require.NoError(t, p.Faults().AgentSilent(id, true))
	r, err = p.Boot(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, providers.CloudInitUnknown, r.CloudInit)
	assert.NotEmpty(t, r.Message)
	s, err := p.Get(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "lease", s.Addresses[0].Source, "F2: the lease still knows")

	require.NoError(t, p.Faults().NoAddress(id, true))
	s, err = p.Get(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, s.Addresses)
}
