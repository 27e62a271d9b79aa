package providertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// checked holds every single call of a case against what the contract says of all calls: its kinds of error, its duration,
// the form of what it answers.
type checked struct {
	providers.Provider
	t     *testing.T
	s     *suite
	woken chan struct{}
	// hosts and events are the provider where it has these abilities, else nil.
	hosts  providers.HostSource
	events providers.EventSource
}

// What each method may answer.
var (
	createKinds = []providers.Kind{
		providers.Invalid, providers.Exists, providers.Denied, providers.Exhausted, providers.NotFound, providers.InProgress,
		providers.Busy, providers.Unreachable, providers.Internal,
	}
	getKinds = []providers.Kind{
		providers.Invalid, providers.NotFound, providers.Exists, providers.Denied, providers.Busy, providers.Unreachable,
		providers.Internal,
	}
	deleteKinds = []providers.Kind{
		providers.Invalid, providers.Exists, providers.Denied, providers.InProgress, providers.Busy, providers.Unreachable,
		providers.Internal,
	}
	listKinds = []providers.Kind{providers.Invalid, providers.Internal}
)

// Create implements providers.Provider.
func (c *checked) Create(ctx context.Context, m providers.Machine) (providers.Status, error) {
	defer c.bounded("Create", time.Now())
	st, err := c.Provider.Create(ctx, m)
	c.kind("Create", err, createKinds)
	if err == nil || st.ID != "" {
		c.status(st, m.Host)
	}
	if err == nil {
		assert.Equal(c.t, m.Tag, st.Tag, "Create: Status.Tag")
	}
	return st, err
}

// Get implements providers.Provider.
func (c *checked) Get(ctx context.Context, id providers.ProviderID) (providers.Status, error) {
	defer c.bounded("Get", time.Now())
	st, err := c.Provider.Get(ctx, id)
	c.kind("Get", err, getKinds)
	if err == nil {
		assert.Equal(c.t, id, st.ID, "Get: Status.ID")
		c.status(st, st.Host)
		assert.False(c.t, st.ObservedAt.IsZero(), "Get: Status.ObservedAt")
	}
	return st, err
}

// Delete implements providers.Provider.
func (c *checked) Delete(ctx context.Context, id providers.ProviderID) error {
	defer c.bounded("Delete", time.Now())
	err := c.Provider.Delete(ctx, id)
	c.kind("Delete", err, deleteKinds)
	return err
}

// ListByTag implements providers.Provider.
func (c *checked) ListByTag(ctx context.Context, tag providers.Tag) (providers.Listing, error) {
	defer c.bounded("ListByTag", time.Now())
	l, err := c.Provider.ListByTag(ctx, tag)
	c.kind("ListByTag", err, listKinds)
	for _, st := range l.Machines {
		c.status(st, st.Host)
		want := tag
		if st.State == providers.StateIncomplete { // its disks may tell the installation only
			want = providers.Tag{ClusterID: tag.ClusterID}
		}
		assert.True(c.t, st.Tag.Matches(want), "ListByTag(%+v) lists %+v", tag, st.Tag)
	}
	for host, why := range l.Unanswered {
		assert.Error(c.t, why, "ListByTag: why host %q did not answer", host)
	}
	return l, err
}

func (c *checked) bounded(method string, start time.Time) {
	c.t.Helper()
	assert.LessOrEqual(c.t, time.Since(start), c.s.CallTimeout, "%s must return within seconds", method)
}

// kind checks that err is of the contract, of a kind that the method documents, and says something.
func (c *checked) kind(method string, err error, allowed []providers.Kind) {
	c.t.Helper()
	if err == nil {
		return
	}
	var e *providers.Error
	require.ErrorAs(c.t, err, &e, "%s: %T holds no *providers.Error", method, err)
	require.True(c.t, slices.Contains(allowed, e.Kind), "%s must not answer %q: %v", method, e.Kind, err)
	assert.True(c.t, e.Msg != "" || e.Err != nil, "%s: an error of kind %q without words", method, e.Kind)
}

// status checks the form of a Status.
func (c *checked) status(st providers.Status, host string) {
	c.t.Helper()
	on, _, err := st.ID.Split(c.s.Name)
	require.NoError(c.t, err, "Status.ID")
	assert.Equal(c.t, on, st.Host, "Status.Host and the ID's host")
	assert.Equal(c.t, host, st.Host, "Status.Host")
	assert.NotEmpty(c.t, st.State, "Status.State")
	for _, a := range st.Addresses {
		assert.True(c.t, a.IP.IsValid(), "Status.Addresses holds an invalid address")
		assert.Contains(c.t, []string{"agent", "lease", "arp"}, a.Source, "Address.Source")
	}
}
