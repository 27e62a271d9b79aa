package providertest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func cancelCases() []testCase {
	return []testCase{
		{"a call whose ctx has ended does nothing", nil, alreadyCancelled},
		{"create cancelled in the middle converges", nil, createCancelled},
		{"delete cancelled in the middle converges", nil, deleteCancelled},
	}
}

// looks are the points at which calls are cut: after so many looks of the provider at its ctx. They grow, since a provider
// that talks to a daemon looks far more often than one in memory.
func looks() []int64 { return []int64{1, 2, 3, 5, 8, 13, 21, 34} }

// countdown is a ctx that is cancelled by being looked at for the n-th time. That cuts a call in its middle without a clock,
// at the same place every time.
type countdown struct {
	context.Context //nolint:containedctx // it is one

	left   atomic.Int64
	cancel context.CancelFunc
}

func countdownFrom(parent context.Context, n int64) *countdown {
	ctx, cancel := context.WithCancel(parent)
	c := &countdown{Context: ctx, cancel: cancel}
	c.left.Store(n)
	return c
}

func (c *countdown) look() {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
}

// Done implements context.Context.
func (c *countdown) Done() <-chan struct{} { c.look(); return c.Context.Done() }

// Err implements context.Context.
func (c *countdown) Err() error { c.look(); return c.Context.Err() }

// unknown checks that err says nothing about the machine.
func unknown(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, providers.Unreachable, "an ended ctx means: could not tell")
}

func alreadyCancelled(t *testing.T, s *suite) {
	p, m := s.provider(t, s.ClusterID), s.machine(t)
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := p.Create(ended, m)
	unknown(t, err)
	require.Empty(t, p.list(m.Tag), "nothing was made")
	if s.Leftovers != nil {
		require.Empty(t, s.Leftovers(t, m), "nothing was made")
	}
	id := p.create(m).ID
	unknown(t, p.Delete(ended, id))
	p.exactlyOne(m, id)
	if _, err := p.Get(ended, id); err != nil { // a provider may know without asking
		unknown(t, err)
	}
}

func createCancelled(t *testing.T, s *suite) {
	for _, n := range looks() {
		t.Run(fmt.Sprintf("look %d", n), func(t *testing.T) {
			p, m := s.provider(t, s.ClusterID), s.machine(t)
			ctx := countdownFrom(s.ctx, n)
			defer ctx.cancel()
			err := p.settled(ctx.Context, func() error { _, err := p.Create(ctx, m); return err })
			mayBeCut(t, ctx, err)
			id := p.create(m).ID
			p.exactlyOne(m, id)
			p.delete(id)
			p.nothingLeft(m)
		})
	}
}

func deleteCancelled(t *testing.T, s *suite) {
	for _, n := range looks() {
		t.Run(fmt.Sprintf("look %d", n), func(t *testing.T) {
			p, m := s.provider(t, s.ClusterID), s.machine(t)
			id := p.create(m).ID
			ctx := countdownFrom(s.ctx, n)
			defer ctx.cancel()
			err := p.settled(ctx.Context, func() error { return p.Delete(ctx, id) })
			mayBeCut(t, ctx, err)
			p.delete(id)
			p.nothingLeft(m)
		})
	}
}

// mayBeCut accepts success, since the last look may come after the last effect, and what a cut call says.
func mayBeCut(t *testing.T, ctx *countdown, err error) {
	t.Helper()
	if err == nil || slices.Contains([]providers.Kind{providers.InProgress, providers.Busy}, providers.KindOf(err)) {
		return
	}
	require.Error(t, ctx.Context.Err(), "only the cut explains: %v", err)
	unknown(t, err)
}
