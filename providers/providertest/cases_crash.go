package providertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func crashCases() []testCase {
	needs := []Ability{AbilityCrash, AbilityLeftovers}
	return []testCase{
		{"create after a crash at each step converges on one machine", needs, createAfterCrash},
		{"delete after a crash at each step leaves nothing", needs, deleteAfterCrash},
	}
}

// crash lets a Create of m die after its k-th effect.
func (s *suite) crash(t *testing.T, m providers.Machine, k int) {
	t.Helper()
	raw, cut := s.CrashAfter(t, k)
	p := s.adopt(t, raw)
	err := p.settled(s.ctx, func() error {
		_, err := p.Create(s.ctx, m)
		if cut() {
			return nil // whatever the dying manager says, nobody hears it
		}
		if err == nil {
			return fmt.Errorf("create succeeded without the crash after step %d: is Harness.CrashSteps right", k)
		}
		return err
	})
	require.NoError(t, err, "until the crash")
	require.True(t, cut(), "the manager died")
}

func createAfterCrash(t *testing.T, s *suite) {
	for k := 1; k <= s.CrashSteps; k++ {
		t.Run(fmt.Sprintf("step %d", k), func(t *testing.T) {
			m := s.machine(t)
			s.crash(t, m, k)
			p := s.provider(t, s.ClusterID)
			id := p.create(m).ID
			p.exactlyOne(m, id)
			converged := s.parts(t, m)

			p.delete(id)
			p.nothingLeft(m)
			p.create(m)
			assert.Equal(t, s.parts(t, m), converged, "the same parts as of a create that nobody cut")
		})
	}
}

func deleteAfterCrash(t *testing.T, s *suite) {
	halfMade := 0
	for k := 1; k <= s.CrashSteps; k++ {
		t.Run(fmt.Sprintf("step %d", k), func(t *testing.T) {
			m := s.machine(t)
			s.crash(t, m, k)
			p := s.provider(t, s.ClusterID)
			if len(s.Leftovers(t, m)) == 0 {
				require.Empty(t, p.list(m.Tag), "nothing on the host, nothing in the list")
				return
			}
			found := p.list(m.Tag)
			require.Len(t, found, 1, "what is half made is listed by its owner")
			all := p.list(providers.Tag{ClusterID: s.ClusterID})
			require.Contains(t, ids(all), found[0].ID, "and by its installation, for the sweep")
			st, err := p.Get(s.ctx, found[0].ID)
			require.NoError(t, err, "half made is there")
			assert.Equal(t, found[0].State, st.State)
			if st.State == providers.StateIncomplete {
				halfMade++
			}
			p.delete(found[0].ID)
			p.nothingLeft(m)
			_, err = p.Get(s.ctx, found[0].ID)
			require.ErrorIs(t, err, providers.NotFound)
		})
	}
	assert.Positive(t, halfMade, "no step left disks without a machine: do the steps of the harness cut finely enough?")
}

func ids(all []providers.Status) []providers.ProviderID {
	out := make([]providers.ProviderID, 0, len(all))
	for _, st := range all {
		out = append(out, st.ID)
	}
	return out
}
