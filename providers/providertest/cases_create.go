package providertest

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func createCases() []testCase {
	return []testCase{
		{"provider has its name", nil, named},
		{"create twice gives one running machine", nil, createTwice},
		{"create twice at once gives one machine", nil, createAtOnce},
		{"create after a restart of the manager finds the machine", nil, createAfterRestart},
		{"create starts a machine that was stopped from inside", []Ability{AbilityStopInside}, createStartsStopped},
		{"create refuses what can never work", nil, createInvalid},
		{"create on an unknown host is NotFound", nil, createUnknownHost},
		{"create with a bad image is Invalid and leaves nothing", []Ability{AbilityBadImages}, createBadImage},
		{"owners of one name are told apart by UID", nil, sameNameOtherUID},
	}
}

func named(t *testing.T, s *suite) {
	assert.Equal(t, s.Name, s.provider(t, s.ClusterID).Name())
}

func createTwice(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	first := p.create(m)
	second := p.create(m)
	assert.Equal(t, first.ID, second.ID, "the ID of a machine never changes")
	p.exactlyOne(m, first.ID)

	got, err := p.Get(s.ctx, first.ID)
	require.NoError(t, err, "Get knows what Create has just made")
	assert.Equal(t, m.Tag, got.Tag)
	p.until(s.ctx, "Get says Running", func() (bool, any) {
		st, err := p.Get(s.ctx, first.ID)
		require.NoError(t, err)
		return st.State == providers.StateRunning, st.State
	})
	p.delete(first.ID)
	p.nothingLeft(m)
}

func createAtOnce(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	var (
		wg  sync.WaitGroup
		ids [4]providers.ProviderID
	)
	for i := range ids {
		wg.Go(func() {
			st, err := p.Provider.Create(s.ctx, m)
			if err == nil || st.ID != "" {
				ids[i] = st.ID
			}
		})
	}
	wg.Wait()
	st := p.create(m)
	for _, id := range ids {
		if id != "" {
			assert.Equal(t, st.ID, id, "all calls speak of one machine")
		}
	}
	p.exactlyOne(m, st.ID)
	p.delete(st.ID)
	p.nothingLeft(m)
}

func createAfterRestart(t *testing.T, s *suite) {
	m := s.machine(t)
	before := s.provider(t, s.ClusterID).create(m)
	p := s.provider(t, s.ClusterID)
	got, err := p.Get(s.ctx, before.ID)
	require.NoError(t, err, "the identity is on the host, not in the manager")
	assert.Equal(t, m.Tag, got.Tag)
	assert.Equal(t, before.ID, p.create(m).ID)
	p.exactlyOne(m, before.ID)
}

func createStartsStopped(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	st := p.create(m)
	s.StopInside(t, m, st.ID)
	p.until(s.ctx, "Get says Stopped", func() (bool, any) {
		got, err := p.Get(s.ctx, st.ID)
		require.NoError(t, err, "a stopped machine is still there")
		return got.State == providers.StateStopped, got.State
	})
	assert.Equal(t, st.ID, p.create(m).ID, "G6, G7: the same machine runs again")
	p.exactlyOne(m, st.ID)
}

func createInvalid(t *testing.T, s *suite) {
	tests := map[string]func(m *providers.Machine){
		"no UID":             func(m *providers.Machine) { m.Tag.UID = "" },
		"no cluster ID":      func(m *providers.Machine) { m.Tag.ClusterID = "" },
		"another cluster ID": func(m *providers.Machine) { m.Tag.ClusterID = "providertest-other-" + uuid.NewString() },
		"no host":            func(m *providers.Machine) { m.Host = "" },
		"no image URL":       func(m *providers.Machine) { m.Image.URL = "" },
		"no image checksum":  func(m *providers.Machine) { m.Image.Checksum = "" },
		"checksum of a kind that nobody knows": func(m *providers.Machine) {
			m.Image.Checksum = "md5:" + strings.Repeat("0", 32)
		},
		"checksum too short":            func(m *providers.Machine) { m.Image.Checksum = "sha256:00" },
		"no CPU":                        func(m *providers.Machine) { m.Resources.CPUs = 0 },
		"no memory":                     func(m *providers.Machine) { m.Resources.MemoryBytes = 0 },
		"negative memory":               func(m *providers.Machine) { m.Resources.MemoryBytes = -1 },
		"no disk":                       func(m *providers.Machine) { m.Resources.DiskBytes = 0 },
		"disk smaller than every image": func(m *providers.Machine) { m.Resources.DiskBytes = 1 << 16 },
	}
	p := s.provider(t, s.ClusterID)
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			m := s.machine(t)
			good := m
			spoil(&m)
			err := p.settled(s.ctx, func() error { _, err := p.Create(s.ctx, m); return err })
			require.ErrorIs(t, err, providers.ErrPermanent)
			p.nothingLeft(good)
		})
	}
}

func createUnknownHost(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	m.Host = "providertest-no-such-host"
	_, err := p.Create(s.ctx, m)
	require.ErrorIs(t, err, providers.NotFound)
}

func createBadImage(t *testing.T, s *suite) {
	p := s.provider(t, s.ClusterID)
	for name, image := range s.BadImages {
		t.Run(name, func(t *testing.T) {
			m := s.machine(t)
			m.Image = image
			for range 2 { // what failed once must not look good the second time
				err := p.settled(s.ctx, func() error { _, err := p.Create(s.ctx, m); return err })
				require.ErrorIs(t, err, providers.ErrPermanent)
			}
			p.nothingLeft(m)
		})
	}
}

func sameNameOtherUID(t *testing.T, s *suite) {
	p, old, recreated := s.provider(t, s.ClusterID), s.machine(t), s.machine(t)
	first, second := p.create(old), p.create(recreated)
	require.NotEqual(t, first.ID, second.ID, "B3: a recreated owner is another owner")
	p.delete(first.ID)
	p.nothingLeft(old)
	p.exactlyOne(recreated, second.ID)
}
