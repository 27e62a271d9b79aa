// Package providertest is the conformance suite of the contract in package providers. Every provider runs it in its own tests:
// the in-memory one in milliseconds, the libvirt one against a real libvirtd. A provider that passes can be swapped for
// another without a controller noticing.
//
// The suite asks through the contract alone. What it must do behind the provider's back (cut a call, take a host down, look at
// a host) is done by the Harness; what a harness cannot do it names in Lacks, with the reason, and the cases that need it are
// skipped with that reason. Nothing is skipped silently.
package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// Ability is something that a harness can do or that its provider implements.
type Ability string

// The abilities. Each one is present or in Harness.Lacks.
const (
	AbilityPlantForeign Ability = "PlantForeign"
	AbilityCrash        Ability = "CrashAfter"
	AbilityHostDown     Ability = "SetHostDown"
	AbilityLeftovers    Ability = "Leftovers"
	AbilityStopInside   Ability = "StopInside"
	AbilityBadImages    Ability = "BadImages"
	AbilityOtherCluster Ability = "OtherClusterID"
	AbilitySecondHost   Ability = "two Hosts"
	AbilityHostSource   Ability = "providers.HostSource"
	AbilityEventSource  Ability = "providers.EventSource"
)

// Foreign says in what a planted machine is like the one that the provider would make.
type Foreign string

// The likenesses of a planted machine.
const (
	// SameName: the name that the host knows machines by.
	SameName Foreign = "same name"
	// SameIdentity: the identity that the ProviderID holds as well, without our tag.
	SameIdentity Foreign = "same identity"
)

// Harness is one provider and what is needed to put it to the test.
type Harness struct {
	// Name that the provider must have.
	Name string
	// ClusterID of the providers under test, OtherClusterID of another installation on the same hosts.
	ClusterID, OtherClusterID string
	// Hosts are handed to each provider that is a HostSource; the others bring them along. Machines go to the first.
	Hosts []providers.Host

	// New starts a manager's provider: fresh, without memory of earlier ones, on hosts that remember everything. New
	// registers its end with t.Cleanup.
	New func(t *testing.T, clusterID string) providers.Provider
	// Machine is one that works on Hosts[0]; the suite sets Tag and Host. Its image must be one that is cheap to get.
	Machine func(t *testing.T) providers.Machine

	// PlantForeign puts a machine that is not ours where the provider would put m; check fails the test unless it is exactly
	// as it was planted. The harness removes it with t.Cleanup.
	PlantForeign func(t *testing.T, m providers.Machine, as Foreign) (check func(t *testing.T))
	// CrashAfter is New for a manager that dies when its next Create on the host has had its k-th effect, 1 ≤ k ≤
	// CrashSteps. cut tells whether it has died. From then on its calls fail or hang until their ctx ends.
	CrashAfter func(t *testing.T, k int) (p providers.Provider, cut func() bool)
	// CrashSteps is the number of effects that a Create has on a host that has nothing of the machine yet.
	CrashSteps int
	// SetHostDown makes a host unreachable, or brings it back. The suite brings back what it took down.
	SetHostDown func(t *testing.T, host string, down bool)
	// Leftovers names everything on m's host that was made for m's owner: machines, volumes, files. Images are shared and
	// do not count. While the machine exists it is not empty.
	Leftovers func(t *testing.T, m providers.Machine) []string
	// StopInside powers the machine off from inside its guest, or as if.
	StopInside func(t *testing.T, m providers.Machine, id providers.ProviderID)
	// BadImages can never work, by what is wrong with them, for example "404" or "wrong checksum".
	BadImages map[string]providers.Image

	// Lacks holds the abilities that are missing, each with the reason.
	Lacks map[Ability]string

	// CaseTimeout bounds one case, which makes up to nine machines one after another; 0 means one minute. CallTimeout is what "within seconds" means for one call; 0 means 20 s.
	CaseTimeout, CallTimeout time.Duration
	// Wait returns when it is worth looking again after InProgress or the like: woken has a value after an event. Nil means:
	// at an event, else after 200 ms.
	Wait func(ctx context.Context, woken <-chan struct{})
}

// testCase is one property of the contract.
type testCase struct {
	name  string
	needs []Ability
	run   func(t *testing.T, s *suite)
}

// Run puts the provider of h to the test.
func Run(t *testing.T, h Harness) {
	t.Helper()
	h = h.withDefaults()
	require.NotEmpty(t, h.Hosts, "Harness.Hosts")
	require.NotNil(t, h.New, "Harness.New")
	require.NotNil(t, h.Machine, "Harness.Machine")
	require.NotEmpty(t, h.ClusterID, "Harness.ClusterID")
	has, err := h.abilities(h.New(t, h.ClusterID))
	require.NoError(t, err)
	for _, c := range slices.Concat(createCases(), deleteCases(), crashCases(), foreignCases(), listCases(), hostCases(), cancelCases()) {
		t.Run(c.name, func(t *testing.T) {
			for _, a := range c.needs {
				if !has[a] {
					t.Skipf("the harness lacks %s: %s", a, h.Lacks[a])
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), h.CaseTimeout)
			t.Cleanup(cancel)
			c.run(t, &suite{Harness: h, ctx: ctx})
		})
	}
}

func (h Harness) withDefaults() Harness {
	if h.CaseTimeout == 0 {
		h.CaseTimeout = time.Minute
	}
	if h.CallTimeout == 0 {
		h.CallTimeout = 20 * time.Second
	}
	if h.Wait == nil {
		h.Wait = waitForEvent
	}
	return h
}

// abilities tells what is there, and refuses a harness that leaves something out without saying so.
func (h Harness) abilities(p providers.Provider) (map[Ability]bool, error) {
	_, hosts := p.(providers.HostSource)
	_, events := p.(providers.EventSource)
	has := map[Ability]bool{
		AbilityPlantForeign: h.PlantForeign != nil,
		AbilityCrash:        h.CrashAfter != nil && h.CrashSteps > 0,
		AbilityHostDown:     h.SetHostDown != nil,
		AbilityLeftovers:    h.Leftovers != nil,
		AbilityStopInside:   h.StopInside != nil,
		AbilityBadImages:    len(h.BadImages) > 0,
		AbilityOtherCluster: h.OtherClusterID != "" && h.OtherClusterID != h.ClusterID,
		AbilitySecondHost:   len(h.Hosts) > 1,
		AbilityHostSource:   hosts,
		AbilityEventSource:  events,
	}
	var wrong []error
	for a, there := range has {
		if there == (h.Lacks[a] != "") {
			wrong = append(wrong, fmt.Errorf("ability %q: give it, or a reason in Harness.Lacks, and not both", a))
		}
	}
	for a := range h.Lacks {
		if _, known := has[a]; !known {
			wrong = append(wrong, fmt.Errorf("ability %q in Harness.Lacks is unknown", a))
		}
	}
	return has, errors.Join(wrong...)
}
