package providertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func listCases() []testCase {
	return []testCase{
		{"list finds machines by owner and by installation", nil, listByTag},
		{"list without a cluster ID is Invalid", nil, listWithoutCluster},
		{"list finds machines on every host", []Ability{AbilitySecondHost}, listAllHosts},
		{"list names a host that is down and still lists the others", []Ability{AbilityHostDown, AbilitySecondHost}, listOneDown},
		{"a machine on a host that is down is Unreachable, never NotFound", []Ability{AbilityHostDown}, hostDown},
	}
}

func listByTag(t *testing.T, s *suite) {
	p, m, n := s.provider(t, s.ClusterID), s.machine(t), s.machine(t)
	n.Tag.Name, n.Tag.Namespace = "px2", "providertest2"
	a, b := p.create(m).ID, p.create(n).ID
	tests := map[string]struct {
		query providers.Tag
		want  []providers.ProviderID
		not   []providers.ProviderID
	}{
		"whole tag":     {m.Tag, []providers.ProviderID{a}, []providers.ProviderID{b}},
		"UID":           {providers.Tag{ClusterID: s.ClusterID, UID: n.Tag.UID}, []providers.ProviderID{b}, []providers.ProviderID{a}},
		"installation":  {providers.Tag{ClusterID: s.ClusterID}, []providers.ProviderID{a, b}, nil},
		"namespace":     {providers.Tag{ClusterID: s.ClusterID, Namespace: "providertest2"}, []providers.ProviderID{b}, []providers.ProviderID{a}},
		"name":          {providers.Tag{ClusterID: s.ClusterID, Name: "px"}, []providers.ProviderID{a}, []providers.ProviderID{b}},
		"UID of nobody": {providers.Tag{ClusterID: s.ClusterID, UID: "nobody"}, nil, []providers.ProviderID{a, b}},
		"UID and other name": {
			providers.Tag{ClusterID: s.ClusterID, UID: m.Tag.UID, Name: "px2"}, nil, []providers.ProviderID{a, b},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ids(p.list(tc.query))
			assert.Subset(t, got, tc.want)
			for _, id := range tc.not {
				assert.NotContains(t, got, id)
			}
		})
	}
}

func listWithoutCluster(t *testing.T, s *suite) {
	_, err := s.provider(t, s.ClusterID).ListByTag(s.ctx, providers.Tag{UID: "x"})
	require.ErrorIs(t, err, providers.Invalid, "an empty query must never mean: everything")
}

func listAllHosts(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	n := m // one owner that was moved: the sweep must see both
	n.Host = s.Hosts[1].Name
	a, b := p.create(m), p.create(n)
	assert.NotEqual(t, a.ID, b.ID, "the host is part of the identity")
	assert.ElementsMatch(t, []providers.ProviderID{a.ID, b.ID}, ids(p.list(m.Tag)))
}

// down takes a host down for the rest of the case.
func (s *suite) down(t *testing.T, host string) (up func()) {
	t.Helper()
	isDown := true
	up = func() {
		if isDown {
			isDown = false
			s.SetHostDown(t, host, false)
		}
	}
	s.SetHostDown(t, host, true)
	t.Cleanup(up)
	return up
}

func listOneDown(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	n := m
	n.Host = s.Hosts[1].Name
	a, b := p.create(m), p.create(n)
	up := s.down(t, n.Host)
	p.until(s.ctx, "the host that is down is named", func() (bool, any) {
		l, err := p.ListByTag(s.ctx, m.Tag)
		require.NoError(t, err, "one host down is no error")
		require.Contains(t, ids(l.Machines), a.ID, "the others are listed")
		why := l.Unanswered[n.Host]
		if why == nil {
			require.Contains(t, ids(l.Machines), b.ID, "a host that is not named has told everything")
		}
		require.NotContains(t, l.Unanswered, m.Host, "only what is down is named")
		return why != nil, l
	})
	up()
	s.connected(t, p, n.Host)
	p.until(s.ctx, "the host is back", func() (bool, any) {
		l, err := p.ListByTag(s.ctx, m.Tag)
		require.NoError(t, err)
		return len(l.Unanswered) == 0 && len(l.Machines) == 2, l
	})
}

func hostDown(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	id := p.create(m).ID
	up := s.down(t, m.Host)
	p.until(s.ctx, "Get says Unreachable", func() (bool, any) {
		_, err := p.Get(s.ctx, id)
		if err != nil {
			require.ErrorIs(t, err, providers.Unreachable, "G1: nothing can be told")
		}
		return err != nil, err
	})
	require.ErrorIs(t, p.Delete(s.ctx, id), providers.Unreachable, "C1, C2: nobody saw it go")
	_, err := p.Create(s.ctx, m)
	require.ErrorIs(t, err, providers.Unreachable)
	up()
	s.connected(t, p, m.Host)
	p.until(s.ctx, "Get answers again", func() (bool, any) {
		_, err := p.Get(s.ctx, id)
		require.NotErrorIs(t, err, providers.NotFound)
		return err == nil, err
	})
	p.exactlyOne(m, id)
}
