package simulated

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

// Get implements providers.Provider.
func (p *Provider) Get(ctx context.Context, id providers.ProviderID) (providers.Status, error) {
	var status providers.Status
	err := p.inspect(ctx, OpGet, id, func(h *hostState, m *machine) { status = m.status(p, h) })
	return status, err
}

// inspect looks at one machine of ours.
func (p *Provider) inspect(ctx context.Context, op Op, id providers.ProviderID, look func(*hostState, *machine)) error {
	host, uid, err := p.parse(id)
	if err != nil {
		return err
	}
	c := &call{p: p, ctx: ctx, op: op, host: host, id: uid}
	return c.step(StepLookup, func(h *hostState) error {
		m, err := c.ours(h)
		if err != nil {
			return err
		}
		if m == nil {
			return &providers.Error{Kind: providers.NotFound, Host: host, Msg: "there is no machine " + uid.String()}
		}
		look(h, m)
		return nil
	})
}

// Delete implements providers.Provider.
func (p *Provider) Delete(ctx context.Context, id providers.ProviderID) error {
	host, uid, err := p.parse(id)
	if err != nil {
		return err
	}
	c, err := p.begin(ctx, OpDelete, host, uid)
	if err != nil {
		return err
	}
	defer c.end()
	steps := []struct {
		name   Step
		effect func(*hostState, *machine) error
	}{
		{StepLookup, func(*hostState, *machine) error { return nil }},
		{StepStop, c.stop},
		{StepUndefine, func(_ *hostState, m *machine) error { m.defined = false; return nil }},
		{StepRemoveDisk, func(_ *hostState, m *machine) error { m.disk = false; return nil }},
		{StepRemoveSeed, func(_ *hostState, m *machine) error { m.seed = false; return nil }},
	}
	for _, s := range steps {
		if err := c.step(s.name, func(h *hostState) error { return c.remove(h, s.effect) }); err != nil {
			return err
		}
	}
	return nil
}

// remove takes one part away where the machine is ours; what is gone already is fine.
func (c *call) remove(h *hostState, effect func(*hostState, *machine) error) error {
	m, err := c.ours(h)
	if err != nil || m == nil {
		return err
	}
	if err := effect(h, m); err != nil {
		return err
	}
	if len(m.leftovers()) == 0 {
		delete(h.machines, m.id)
		c.p.world.changed(h, m)
	}
	return nil
}

// stop presses the power button and answers InProgress until the guest is down.
func (c *call) stop(h *hostState, m *machine) error {
	if m.state == providers.StateRunning && m.defined {
		w := c.p.world
		w.halt(h, m, providers.StateStopping, "ShuttingDown", "the guest was asked to shut down")
		w.after(c.p.opt.StopTime, nil, func() {
			if m.state == providers.StateStopping {
				w.halt(h, m, providers.StateStopped, "", "")
			}
		})
	}
	if m.state == providers.StateStopping {
		return &providers.Error{Kind: providers.InProgress, Reason: "Stopping", Host: h.name, Msg: "waiting for the guest to shut down"}
	}
	return nil
}

// ListByTag implements providers.Provider.
func (p *Provider) ListByTag(ctx context.Context, tag providers.Tag) (providers.Listing, error) {
	if tag.ClusterID != p.opt.ClusterID {
		return providers.Listing{}, invalid("InvalidTag", "tag.clusterID %q is not this provider's %q", tag.ClusterID, p.opt.ClusterID)
	}
	var hosts []string
	err := p.world.do(func() error {
		hosts = slices.Sorted(maps.Keys(p.hosts))
		return p.ended
	})
	if err != nil {
		return providers.Listing{}, err
	}
	out := providers.Listing{Unanswered: map[string]error{}}
	for _, name := range hosts {
		c := &call{p: p, ctx: ctx, op: OpList, host: name, id: uuid.Nil}
		var found []providers.Status
		err := c.step(StepLookup, func(h *hostState) error { found = h.list(p, tag); return nil })
		if err != nil {
			out.Unanswered[name] = err
			continue
		}
		out.Machines = append(out.Machines, found...)
	}
	return out, nil
}

func (h *hostState) list(p *Provider, tag providers.Tag) []providers.Status {
	var out []providers.Status
	for _, m := range h.machines {
		if m.tag.Matches(tag) {
			out = append(out, m.status(p, h))
		}
	}
	slices.SortFunc(out, func(a, b providers.Status) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}
