package providertest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func deleteCases() []testCase {
	return []testCase{
		{"delete removes everything and can be said twice", nil, deleteTwice},
		{"delete of a stopped machine", []Ability{AbilityStopInside}, deleteStopped},
		{"what never was is NotFound to Get and nil to Delete", nil, neverWas},
		{"IDs of others are Invalid", nil, malformedIDs},
		{"create after delete makes the machine anew", nil, createAfterDelete},
	}
}

func deleteTwice(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	id := p.create(m).ID
	if s.Leftovers != nil {
		require.NotEmpty(t, s.Leftovers(t, m), "the harness sees what the machine is made of")
	}
	p.delete(id)
	p.nothingLeft(m)
	_, err := p.Get(s.ctx, id)
	require.ErrorIs(t, err, providers.NotFound, "Get after Delete")
	p.delete(id)
	p.nothingLeft(m)
}

func deleteStopped(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	id := p.create(m).ID
	s.StopInside(t, m, id)
	p.delete(id)
	p.nothingLeft(m)
}

func neverWas(t *testing.T, s *suite) {
	p := s.provider(t, s.ClusterID)
	id := providers.NewProviderID(s.Name, s.Hosts[0].Name, uuid.NewString())
	_, err := p.Get(s.ctx, id)
	require.ErrorIs(t, err, providers.NotFound, "the host answered")
	require.NoError(t, p.settled(s.ctx, func() error { return p.Delete(s.ctx, id) }))
}

func malformedIDs(t *testing.T, s *suite) {
	p, host := s.provider(t, s.ClusterID), s.Hosts[0].Name
	ids := map[string]providers.ProviderID{
		"empty":            "",
		"no scheme":        providers.ProviderID(host + "/" + uuid.NewString()),
		"another provider": providers.NewProviderID("providertest-other", host, uuid.NewString()),
		"no machine":       providers.NewProviderID(s.Name, host, ""),
		"no host":          providers.NewProviderID(s.Name, "", uuid.NewString()),
		"too many parts":   providers.NewProviderID(s.Name, host, uuid.NewString()+"/x"),
		"no UUID":          providers.NewProviderID(s.Name, host, "px-1"),
	}
	for name, id := range ids {
		t.Run(name, func(t *testing.T) {
			_, err := p.Get(s.ctx, id)
			assert.ErrorIs(t, err, providers.Invalid, "Get(%q)", id)
			assert.ErrorIs(t, p.Delete(s.ctx, id), providers.Invalid, "Delete(%q)", id)
		})
	}
}

func createAfterDelete(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	p.delete(p.create(m).ID)
	st := p.create(m)
	p.exactlyOne(m, st.ID)
	p.delete(st.ID)
	p.nothingLeft(m)
}
