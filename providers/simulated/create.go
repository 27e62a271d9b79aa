package simulated

import (
	"context"

	"github.com/proxyard/proxyard/providers"
)

// Create implements providers.Provider.
func (p *Provider) Create(ctx context.Context, m providers.Machine) (providers.Status, error) {
	if err := p.validate(m); err != nil {
		return providers.Status{}, err
	}
	id := machineID(p.opt.ClusterID, m.Tag.UID, m.Host)
	status := providers.Status{ID: p.providerID(m.Host, id), Tag: m.Tag, Host: m.Host, State: providers.StateUnknown}
	c, err := p.begin(ctx, OpCreate, m.Host, id)
	if err != nil {
		return status, err
	}
	defer c.end()
	if err := p.knownHost(m.Host); err != nil {
		return status, err
	}
	err = c.create(m, &status)
	return status, err
}

// knownHost tells a host that does not exist from one that does not answer: only Create may, since nothing of ours can be on
// a host that it is about to use for the first time.
func (p *Provider) knownHost(name string) error {
	return p.world.do(func() error {
		if _, ok := p.hosts[name]; !ok && p.ended == nil {
			return &providers.Error{Kind: providers.NotFound, Reason: "HostUnknown", Host: name, Msg: "no such host"}
		}
		return nil
	})
}

// create runs the steps that are still needed; status is brought up to date after each.
func (c *call) create(m providers.Machine, status *providers.Status) error {
	defined := false
	err := c.step(StepLookup, func(h *hostState) error {
		existing, err := c.ours(h)
		defined = existing != nil && existing.defined
		c.report(h, status)
		return err
	})
	if err != nil {
		return err
	}
	steps := []struct {
		name   Step
		effect func(*hostState) error
		skip   bool
	}{
		{StepImage, func(h *hostState) error { return c.p.ensureImage(h, m) }, defined},
		{StepDisk, func(h *hostState) error { return c.ensureDisk(h, m) }, defined},
		{StepSeed, func(h *hostState) error { return c.ensureSeed(h, m) }, defined},
		{StepDefine, func(h *hostState) error { return c.define(h, m) }, defined},
		{StepStart, c.start, false},
	}
	for _, s := range steps {
		if s.skip {
			continue
		}
		err := c.step(s.name, func(h *hostState) error {
			err := s.effect(h)
			c.report(h, status)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *call) report(h *hostState, status *providers.Status) {
	if m := h.machines[c.id]; m != nil && m.tag.ClusterID == c.p.opt.ClusterID {
		*status = m.status(c.p, h)
	}
}

// ours finds what the host has under the call's identity: nil when there is nothing, Exists when it belongs to another.
func (c *call) ours(h *hostState) (*machine, error) {
	m := h.machines[c.id]
	if m != nil && m.tag.ClusterID != c.p.opt.ClusterID {
		return nil, foreign(h, m)
	}
	return m, nil
}

func foreign(h *hostState, m *machine) error {
	return &providers.Error{Kind: providers.Exists, Host: h.name, Msg: "machine " + m.name + " is there and not ours: remove or rename it"}
}

// nameTaken looks for a machine of another identity under the name that ours would get.
func (c *call) nameTaken(h *hostState) error {
	for id, m := range h.machines {
		if id != c.id && m.name == machineName(c.id) {
			return foreign(h, m)
		}
	}
	return nil
}

func (c *call) ensureDisk(h *hostState, want providers.Machine) error {
	if err := c.nameTaken(h); err != nil {
		return err
	}
	m := h.machines[c.id]
	if m != nil && m.disk {
		return nil
	}
	if h.storage != nil {
		return h.storage
	}
	if h.full {
		return &providers.Error{Kind: providers.Exhausted, Reason: "PoolFull", Host: h.name, Msg: "the storage pool is full"}
	}
	if m == nil {
		m = &machine{id: c.id, name: machineName(c.id), tag: want.Tag, port: c.p.portOf(want), answer: c.p.opt.Proxy}
		h.machines[c.id] = m
	}
	m.disk, m.diskBytes = true, want.Resources.DiskBytes
	return nil
}

func (c *call) ensureSeed(h *hostState, want providers.Machine) error {
	m := h.machines[c.id]
	m.seed, m.port = true, c.p.portOf(want)
	return nil
}

func (c *call) define(h *hostState, want providers.Machine) error {
	if h.network != nil {
		return h.network
	}
	m := h.machines[c.id]
	m.defined, m.tag = true, want.Tag
	m.set(providers.StateStopped, "", "")
	return nil
}

func (c *call) start(h *hostState) error {
	m := h.machines[c.id]
	switch m.state {
	case providers.StateRunning:
		return nil
	case providers.StateStopping:
		return &providers.Error{Kind: providers.InProgress, Reason: "Stopping", Host: h.name, Msg: "the machine is shutting down"}
	case providers.StatePaused, providers.StateFailed:
		if h.full {
			return &providers.Error{Kind: providers.Exhausted, Reason: "PoolFull", Host: h.name, Msg: "the storage pool is full"}
		}
	default: // off, or never started
	}
	c.p.world.start(h, m, c.p.opt.BootTime)
	return nil
}
