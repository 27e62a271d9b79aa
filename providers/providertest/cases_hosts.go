package providertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func hostCases() []testCase {
	needs := []Ability{AbilityHostSource}
	return []testCase{
		{"an equal host again changes nothing", needs, setHostTwice},
		{"machines of a removed host are Unreachable, not NotFound", needs, removedHost},
		{"a machine on a host that was never set is Unreachable", needs, neverSetHost},
		{"a host that cannot work is Invalid", needs, invalidHost},
		{"host status says what is known", needs, hostStatus},
		{"an event follows a change", []Ability{AbilityEventSource}, eventAfterCreate},
		{"a subscription ends", []Ability{AbilityEventSource}, subscriptionEnds},
	}
}

func setHostTwice(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	id := p.create(m).ID
	require.NoError(t, p.hosts.SetHost(s.ctx, s.Hosts[0]))
	st, err := p.hosts.HostStatus(s.ctx, m.Host)
	require.NoError(t, err)
	require.NoError(t, st.Connected, "the connection is not given up for nothing")
	_, err = p.Get(s.ctx, id)
	require.NoError(t, err, "at once, without connecting anew")
}

func removedHost(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	id := p.create(m).ID
	require.NoError(t, p.hosts.RemoveHost(s.ctx, m.Host))
	require.NoError(t, p.hosts.RemoveHost(s.ctx, m.Host), "it is forgotten already")
	_, err := p.Get(s.ctx, id)
	require.ErrorIs(t, err, providers.Unreachable, "Get: nobody looked")
	require.ErrorIs(t, p.Delete(s.ctx, id), providers.Unreachable, "Delete: nobody looked")
	_, err = p.hosts.HostStatus(s.ctx, m.Host)
	require.ErrorIs(t, err, providers.NotFound, "HostStatus")

	require.NoError(t, p.hosts.SetHost(s.ctx, s.Hosts[0]))
	s.connected(t, p, m.Host)
	p.exactlyOne(m, id)
}

func neverSetHost(t *testing.T, s *suite) {
	p := s.provider(t, s.ClusterID)
	id := providers.NewProviderID(s.Name, "providertest-no-such-host", "6f1c8a52-7f0e-5a0a-8d7c-0123456789ab")
	_, err := p.Get(s.ctx, id)
	require.ErrorIs(t, err, providers.Unreachable)
	require.ErrorIs(t, p.Delete(s.ctx, id), providers.Unreachable)
	_, err = p.hosts.HostStatus(s.ctx, "providertest-no-such-host")
	require.ErrorIs(t, err, providers.NotFound)
}

func invalidHost(t *testing.T, s *suite) {
	p := s.provider(t, s.ClusterID)
	for name, spoil := range map[string]func(h *providers.Host){
		"no URI":    func(h *providers.Host) { h.URI = "" },
		"no scheme": func(h *providers.Host) { h.URI = "//kvm1/system" },
		"no name":   func(h *providers.Host) { h.Name = "" },
	} {
		h := s.Hosts[0]
		h.Name = "providertest-invalid"
		spoil(&h)
		require.ErrorIs(t, p.hosts.SetHost(s.ctx, h), providers.Invalid, name)
	}
	require.Empty(t, p.list(providers.Tag{ClusterID: s.ClusterID, UID: "x"}), "a host that was refused is none")
}

func hostStatus(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	id := p.create(m).ID
	p.until(s.ctx, "the machine is counted", func() (bool, any) {
		st, err := p.hosts.HostStatus(s.ctx, m.Host)
		require.NoError(t, err)
		require.NoError(t, st.Connected)
		return st.Machines > 0 && st.Capacity.CPUs > 0 && st.Capacity.MemoryBytes > 0 && st.Capacity.StorageBytes > 0, st
	})
	st, err := p.hosts.HostStatus(s.ctx, m.Host)
	require.NoError(t, err)
	assert.NoError(t, st.Storage)
	assert.NoError(t, st.Network)
	assert.Contains(t, []providers.VirtType{providers.VirtTypeKVM, providers.VirtTypeQEMU}, st.VirtType, "Auto is resolved")
	assert.NotEmpty(t, st.HostUUID)
	assert.LessOrEqual(t, st.Capacity.StorageFreeBytes, st.Capacity.StorageBytes)
	p.delete(id)
}

func eventAfterCreate(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	events := make(chan providers.Event, 256)
	cancel := p.events.Subscribe(func(e providers.Event) {
		select {
		case events <- e:
		default:
		}
	})
	defer cancel()
	id := p.create(m).ID
	p.until(s.ctx, "an event says: look at the new machine or its host", func() (bool, any) {
		for {
			select {
			case e := <-events:
				if e.ID == id || (e.ID == "" && e.Host == m.Host) {
					return true, e
				}
			default:
				return false, "none"
			}
		}
	})
}

func subscriptionEnds(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	heard := make(chan providers.Event, 1)
	p.events.Subscribe(func(e providers.Event) {
		select {
		case heard <- e:
		default:
		}
	})()
	p.create(m)
	require.Empty(t, heard, "cancelled before anything happened")
}
