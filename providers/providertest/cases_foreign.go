package providertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func foreignCases() []testCase {
	return []testCase{
		{"a foreign machine of the same name stays untouched", []Ability{AbilityPlantForeign}, foreignName},
		{"a foreign machine of the same identity stays untouched", []Ability{AbilityPlantForeign}, foreignIdentity},
		{"two installations on one host never touch each other", []Ability{AbilityOtherCluster}, otherCluster},
	}
}

func foreignName(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	check := s.PlantForeign(t, m, SameName)
	st := p.refused(m)
	require.NotEmpty(t, st.ID, "the ID can be derived beside the error")
	_, err := p.Get(s.ctx, st.ID)
	require.Error(t, err, "Get must not take it for ours")
	assert.Contains(t, []providers.Kind{providers.NotFound, providers.Exists}, providers.KindOf(err))
	if err := p.settled(s.ctx, func() error { return p.Delete(s.ctx, st.ID) }); err != nil {
		require.ErrorIs(t, err, providers.Exists, "Delete: nothing of ours is there, or the name is taken")
	}
	require.Empty(t, p.list(m.Tag))
	check(t)
}

func foreignIdentity(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	check := s.PlantForeign(t, m, SameIdentity)
	st := p.refused(m)
	require.NotEmpty(t, st.ID, "the ID can be derived beside the error")
	_, err := p.Get(s.ctx, st.ID)
	require.ErrorIs(t, err, providers.Exists, "Get")
	err = p.settled(s.ctx, func() error { return p.Delete(s.ctx, st.ID) })
	require.ErrorIs(t, err, providers.Exists, "Delete")
	require.Empty(t, p.list(m.Tag))
	check(t)
}

// refused creates m where something foreign is in the way.
func (c *checked) refused(m providers.Machine) providers.Status {
	c.t.Helper()
	var st providers.Status
	err := c.settled(c.s.ctx, func() (err error) { st, err = c.Create(c.s.ctx, m); return err })
	require.ErrorIs(c.t, err, providers.Exists, "Create")
	return st
}

func otherCluster(t *testing.T, s *suite) {
	ours, theirs := s.provider(t, s.ClusterID), s.provider(t, s.OtherClusterID)
	m := s.machine(t)
	twin := m // the same owner in a cluster that was restored from the other's backup
	twin.Tag.ClusterID = s.OtherClusterID
	t.Cleanup(func() { s.remove(t, twin) })
	a, b := ours.create(m), theirs.create(twin)
	require.NotEqual(t, a.ID, b.ID, "the installation is part of the identity")

	assert.NotContains(t, ids(ours.list(providers.Tag{ClusterID: s.ClusterID})), b.ID)
	assert.NotContains(t, ids(theirs.list(providers.Tag{ClusterID: s.OtherClusterID})), a.ID)
	_, err := theirs.Get(s.ctx, a.ID)
	require.ErrorIs(t, err, providers.Exists, "Get of another installation's machine")
	err = theirs.settled(s.ctx, func() error { return theirs.Delete(s.ctx, a.ID) })
	require.ErrorIs(t, err, providers.Exists, "Delete of another installation's machine")
	_, err = theirs.ListByTag(s.ctx, providers.Tag{ClusterID: s.ClusterID})
	require.ErrorIs(t, err, providers.Invalid, "ListByTag for another installation")

	theirs.delete(b.ID)
	st, err := ours.Get(s.ctx, a.ID)
	require.NoError(t, err, "ours is still there")
	assert.Equal(t, providers.StateRunning, st.State)
	ours.exactlyOne(m, a.ID)
}
