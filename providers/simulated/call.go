package simulated

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

// call is one call of the provider about one host.
type call struct {
	p    *Provider
	ctx  context.Context //nolint:containedctx // a call is one method call, and ends with it
	op   Op
	host string
	id   uuid.UUID
}

// begin starts a changing call. Two at once on one machine would trip over each other: the second is Busy.
func (p *Provider) begin(ctx context.Context, op Op, host string, id uuid.UUID) (*call, error) {
	c := &call{p: p, ctx: ctx, op: op, host: host, id: id}
	err := p.world.do(func() error {
		key := machineKey{host, id}
		if p.world.inFlight[key] {
			return &providers.Error{Kind: providers.Busy, Host: host, Msg: "another call works on this machine"}
		}
		p.world.inFlight[key] = true
		return nil
	})
	return c, err
}

func (c *call) end() {
	_ = c.p.world.do(func() error {
		delete(c.p.world.inFlight, machineKey{c.host, c.id})
		return nil
	})
}

// step is one exchange with the host: what was ordered to happen before it, its effect, what was ordered to happen after it.
func (c *call) step(s Step, effect func(h *hostState) error) error {
	if err := c.interrupt(s, Before); err != nil {
		return err
	}
	err := c.p.world.do(func() error {
		h, err := c.p.reach(c.host)
		if err != nil {
			return err
		}
		return effect(h)
	})
	if err != nil {
		return err
	}
	return c.interrupt(s, After)
}

// interrupt carries out the rules for this point.
func (c *call) interrupt(s Step, w When) error {
	var (
		hits  []*Rule
		delay time.Duration
	)
	err := c.p.world.do(func() error {
		if c.p.ended != nil {
			return c.p.ended
		}
		if h := c.p.world.hosts[c.host]; h != nil && w == Before {
			delay = h.slow
		}
		hits = c.p.matching(c, s, w)
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range hits {
		delay += r.Latency
		if r.Do != nil {
			r.Do()
		}
	}
	if err := c.wait(delay); err != nil {
		return err
	}
	return c.strike(hits)
}

// strike crashes or fails as the first rule says that does either.
func (c *call) strike(hits []*Rule) error {
	for _, r := range hits {
		if r.Crash {
			err := &providers.Error{Kind: providers.Internal, Reason: "Crashed", Host: c.host, Msg: "the manager crashed"}
			c.p.world.end(c.p, err)
			return err
		}
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// wait lets d pass, or answers that ctx ended first.
func (c *call) wait(d time.Duration) error {
	if d > 0 && c.ctx.Err() == nil {
		select {
		case <-c.p.world.clock.After(d):
		case <-c.ctx.Done():
		}
	}
	if err := c.ctx.Err(); err != nil {
		return &providers.Error{Kind: providers.Unreachable, Reason: "Cancelled", Host: c.host, Msg: string(c.op) + " was cut off", Err: err}
	}
	return nil
}
