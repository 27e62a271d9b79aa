package providertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// suite is what one case works with.
type suite struct {
	Harness
	ctx context.Context //nolint:containedctx // the time of one case
}

// cleanupTimeout bounds the removal of a case's machines, which comes after the case's own time.
const cleanupTimeout = time.Minute

// defaultPause is between two looks where no event comes.
const defaultPause = 200 * time.Millisecond

func waitForEvent(ctx context.Context, woken <-chan struct{}) {
	t := time.NewTimer(defaultPause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-t.C:
	}
}

// provider starts a manager's provider of the cluster and awaits its hosts.
func (s *suite) provider(t *testing.T, clusterID string) *checked {
	t.Helper()
	return s.adopt(t, s.New(t, clusterID))
}

func (s *suite) adopt(t *testing.T, p providers.Provider) *checked {
	t.Helper()
	c := &checked{t: t, s: s, Provider: p, woken: make(chan struct{}, 1)}
	c.hosts, _ = p.(providers.HostSource)
	c.events, _ = p.(providers.EventSource)
	if c.events != nil {
		t.Cleanup(c.events.Subscribe(func(providers.Event) {
			select {
			case c.woken <- struct{}{}:
			default:
			}
		}))
	}
	if c.hosts != nil {
		for _, h := range s.Hosts {
			require.NoError(t, c.hosts.SetHost(s.ctx, h), "SetHost %q", h.Name)
		}
		for _, h := range s.Hosts {
			s.connected(t, c, h.Name)
		}
	}
	return c
}

// connected waits until the host answers.
func (s *suite) connected(t *testing.T, c *checked, host string) {
	t.Helper()
	if c.hosts == nil {
		return
	}
	c.until(s.ctx, "host "+host+" answers", func() (bool, any) {
		st, err := c.hosts.HostStatus(s.ctx, host)
		require.NoError(t, err, "HostStatus of a host that was set")
		return st.Connected == nil && !st.LastSeen.IsZero(), st.Connected
	})
}

// machine is a new one that works on the first host. Whatever becomes of it is removed after the case.
func (s *suite) machine(t *testing.T) providers.Machine {
	t.Helper()
	m := s.Machine(t)
	m.Tag = providers.Tag{ClusterID: s.ClusterID, Namespace: "providertest", Name: "px", UID: uuid.NewString()}
	m.Host = s.Hosts[0].Name
	t.Cleanup(func() { s.remove(t, m) })
	return m
}

// remove deletes what is left of a machine with a provider that knows nothing of it.
func (s *suite) remove(t *testing.T, m providers.Machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), cleanupTimeout)
	defer cancel()
	after := *s
	after.ctx = ctx
	p := after.provider(t, m.Tag.ClusterID)
	for _, st := range p.list(m.Tag) {
		p.delete(st.ID)
	}
}

// create converges on a running machine.
func (c *checked) create(m providers.Machine) providers.Status {
	c.t.Helper()
	var st providers.Status
	err := c.settled(c.s.ctx, func() (err error) { st, err = c.Create(c.s.ctx, m); return err })
	require.NoError(c.t, err, "Create")
	require.Equal(c.t, providers.StateRunning, st.State, "Create answers nil for a running machine only")
	return st
}

// delete converges on nothing.
func (c *checked) delete(id providers.ProviderID) {
	c.t.Helper()
	require.NoError(c.t, c.settled(c.s.ctx, func() error { return c.Delete(c.s.ctx, id) }), "Delete %s", id)
}

// list is every machine with the tag; all hosts must answer.
func (c *checked) list(tag providers.Tag) []providers.Status {
	c.t.Helper()
	l, err := c.ListByTag(c.s.ctx, tag)
	require.NoError(c.t, err, "ListByTag")
	require.Empty(c.t, l.Unanswered, "every host is up")
	return l.Machines
}

// settled calls again while the provider says that it works on it or is busy, and gives its last word.
func (c *checked) settled(ctx context.Context, call func() error) error {
	c.t.Helper()
	for {
		err := call()
		if err == nil || ctx.Err() != nil || !slices.Contains([]providers.Kind{providers.InProgress, providers.Busy}, providers.KindOf(err)) {
			return err
		}
		c.s.Wait(ctx, c.woken)
	}
}

// until looks again until done or the case's time is over; seen is told when it never was.
func (c *checked) until(ctx context.Context, what string, look func() (done bool, seen any)) {
	c.t.Helper()
	for {
		done, seen := look()
		if done {
			return
		}
		require.NoError(c.t, ctx.Err(), "%s: not in time, last seen: %v", what, seen)
		c.s.Wait(ctx, c.woken)
	}
}

// nothingLeft asks provider and host whether anything of the machine is left.
func (c *checked) nothingLeft(m providers.Machine) {
	c.t.Helper()
	require.Empty(c.t, c.list(m.Tag), "ListByTag after Delete")
	if c.s.Leftovers != nil {
		require.Empty(c.t, c.s.Leftovers(c.t, m), "on the host after Delete")
	}
}

// exactlyOne asks for one running machine and no other of the tag.
func (c *checked) exactlyOne(m providers.Machine, id providers.ProviderID) {
	c.t.Helper()
	all := c.list(m.Tag)
	require.Len(c.t, all, 1, "exactly one machine")
	require.Equal(c.t, id, all[0].ID)
}

func (s *suite) parts(t *testing.T, m providers.Machine) []string {
	t.Helper()
	parts := slices.Clone(s.Leftovers(t, m))
	slices.Sort(parts)
	return parts
}
