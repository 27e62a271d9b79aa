package providertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// bare is a provider that implements nothing beyond the contract's core.
type bare struct{ providers.Provider }

func TestEveryAbilityIsDeclared(t *testing.T) {
	lacksAll := func() map[Ability]string {
		return map[Ability]string{
			AbilityPlantForeign: "r", AbilityCrash: "r", AbilityHostDown: "r", AbilityLeftovers: "r", AbilityStopInside: "r",
			AbilityBadImages: "r", AbilityOtherCluster: "r", AbilitySecondHost: "r", AbilityHostSource: "r", AbilityEventSource: "r",
		}
	}
	tests := map[string]struct {
		reason string
		change func(h *Harness)
		wrong  string
	}{
		"nothing, all declared": {"a poor harness is fine when it says so", func(*Harness) {}, ""},
		"left out in silence":   {"a skipped case must have a reason", func(h *Harness) { delete(h.Lacks, AbilityCrash) }, `"CrashAfter"`},
		"empty reason":          {"a skipped case must have a reason", func(h *Harness) { h.Lacks[AbilityHostSource] = "" }, `"providers.HostSource"`},
		"there and lacking": {"a case would be skipped that can run", func(h *Harness) {
			h.SetHostDown = func(*testing.T, string, bool) {}
		}, `"SetHostDown"`},
		"misspelt": {"it would hide nothing, but mislead", func(h *Harness) { h.Lacks["Crash"] = "r" }, `"Crash" in Harness.Lacks is unknown`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := Harness{Lacks: lacksAll()}
			tc.change(&h)
			has, err := h.abilities(bare{})
			if tc.wrong != "" {
				require.ErrorContains(t, err, tc.wrong, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			for a, there := range has {
				assert.False(t, there, a)
			}
		})
	}
}

func TestCountdownCutsAtTheNthLook(t *testing.T) {
	c := countdownFrom(t.Context(), 3)
	require.NoError(t, c.Err(), "first look")
	select {
	case <-c.Done(): // second look
		require.Fail(t, "too early")
	default:
	}
	require.ErrorIs(t, c.Err(), context.Canceled, "third look")
	require.ErrorIs(t, c.Err(), context.Canceled, "and for good")
}
