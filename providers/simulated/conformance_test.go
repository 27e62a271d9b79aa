package simulated_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/providertest"
	"github.com/proxyard/proxyard/providers/simulated"
)

func TestConformance(t *testing.T) {
	tests := map[string]struct {
		reason string
		o      simulated.Options
	}{
		"at once":   {"every call runs through", simulated.Options{Port: 3911}},
		"with time": {"downloads, boots and stops go on in the background", simulated.Options{Port: 3912, ImageTime: 5 * time.Second, BootTime: 3 * time.Second, StopTime: 4 * time.Second}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { providertest.Run(t, harness(t, tc.o)) })
	}
}

// harness puts every provider of the suite on one World with a fake clock: waiting is a step of the clock.
func harness(t *testing.T, o simulated.Options) providertest.Harness {
	t.Helper()
	clock := newClock()
	o.World = simulated.NewWorld(clock)
	t.Cleanup(o.World.Close)
	start := func(t *testing.T, clusterID string) *simulated.Provider {
		t.Helper()
		o := o
		o.ClusterID = clusterID
		p := simulated.New(o)
		t.Cleanup(p.Close)
		return p
	}
	behind := start(t, "c1").Faults() // acts on the World behind the backs of the providers under test
	behind.Image("http://images.test/404", 0, simulated.ErrImageNotFound)
	behind.Image("http://images.test/changed", 0, simulated.ErrImageChecksum)
	behind.Image("http://images.test/index.html", 0, simulated.ErrImageUnsupported)
	image := func(name, digit string) providers.Image {
		return providers.Image{URL: "http://images.test/" + name, Checksum: "sha256:" + strings.Repeat(digit, 64)}
	}
	return providertest.Harness{
		Name: "simulated", ClusterID: "c1", OtherClusterID: "c2",
		Hosts:   []providers.Host{{Name: "h1", URI: "sim://h1"}, {Name: "h2", URI: "sim://h2"}},
		New:     func(t *testing.T, clusterID string) providers.Provider { t.Helper(); return start(t, clusterID) },
		Machine: func(*testing.T) providers.Machine { return machine("") },
		PlantForeign: func(t *testing.T, m providers.Machine, as providertest.Foreign) func(t *testing.T) {
			t.Helper()
			identity := simulated.SameName
			if as == providertest.SameIdentity {
				identity = simulated.SameUUID
			}
			look := behind.PlantForeign(m, identity)
			before := look()
			return func(t *testing.T) { t.Helper(); require.Equal(t, before, look()) }
		},
		CrashSteps: len(simulated.CreateSteps()),
		CrashAfter: func(t *testing.T, k int) (providers.Provider, func() bool) {
			t.Helper()
			p, crashed := start(t, "c1"), false
			p.Faults().Inject(simulated.Rule{
				Op: simulated.OpCreate, Step: simulated.CreateSteps()[k-1], When: simulated.After, Crash: true, Do: func() { crashed = true },
			})
			return p, func() bool { return crashed }
		},
		SetHostDown: func(_ *testing.T, host string, down bool) { behind.HostDown(host, down) },
		Leftovers:   func(_ *testing.T, m providers.Machine) []string { return behind.Leftovers(m) },
		StopInside: func(t *testing.T, _ providers.Machine, id providers.ProviderID) {
			t.Helper()
			require.NoError(t, behind.Stop(id))
		},
		BadImages: map[string]providers.Image{
			"404": image("404", "1"), "wrong checksum": image("changed", "2"), "not an image": image("index.html", "3"),
		},
		CaseTimeout: 10 * time.Second,
		Wait:        func(context.Context, <-chan struct{}) { clock.Step(time.Second) },
	}
}
