package kvm

import (
	"context"
	"slices"
	"time"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// Get is answered from the last poll while the machine runs and nothing happened to it; a machine in transition is looked
// at.
func (p *Provider) Get(ctx context.Context, id providers.ProviderID) (providers.Status, error) {
	h, m, err := p.locate(id)
	if err != nil {
		return providers.Status{ID: id}, err
	}
	st := providers.Status{ID: id, Host: h.spec.Name, State: providers.StateUnknown}
	if err := h.answers(ctx); err != nil {
		return st, err
	}
	if seen, ok := h.settled(m); ok {
		return seen, nil
	}
	o, err := h.find(ctx, m)
	if err != nil && providers.KindOf(err) == providers.NotFound {
		return h.getDisks(ctx, m, st)
	}
	if err != nil {
		return st, err
	}
	return h.statusOf(m, o), nil
}

// settled answers from the last poll, for a machine that was seen to be ours before, runs, and had no event since.
func (h *host) settled(m identity.Machine) (providers.Status, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, known := h.guests[m]
	s, listed := h.snap.states[m]
	// An old poll says nothing of now, and one from before a reconnect nothing of what happened meanwhile.
	fresh := h.snap.at.After(h.connected) && h.p.opts.Now().Sub(h.snap.at) <= 2*h.p.opts.PollInterval
	if !fresh || !known || !listed || g.touched || !g.verified || s.word().state != providers.StateRunning {
		return providers.Status{}, false
	}
	return h.fillLocked(m, g, s, h.snap.at), true
}

// statusOf records what a look at the host showed and puts it into the contract's words.
func (h *host) statusOf(m identity.Machine, o owned) providers.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guestLocked(m)
	g.verified, g.tag = true, o.meta.Tag()
	return h.fillLocked(m, g, o.state, h.p.opts.Now())
}

func (h *host) fillLocked(m identity.Machine, g *guest, s domainState, seen time.Time) providers.Status {
	w := s.word()
	return providers.Status{
		ID: providerID(h.spec.Name, m), Tag: g.tag, Host: h.spec.Name,
		State: w.state, Reason: w.reason, Message: w.message,
		Addresses: g.book.list(h.p.opts.Now()), ObservedAt: seen,
	}
}

// getDisks tells a machine that never was from one of which only disks are left.
func (h *host) getDisks(ctx context.Context, m identity.Machine, st providers.Status) (providers.Status, error) {
	vols, err := h.volumesOf(ctx, h.spec.StoragePool, m)
	if err != nil {
		return st, err
	}
	if len(vols) == 0 {
		return st, h.fail(providers.NotFound, "MachineNotFound", "the machine is not on the host")
	}
	return h.disksOnly(m, st.Tag), nil
}

// disksOnly is a machine that a create or a delete left half made.
func (h *host) disksOnly(m identity.Machine, tag providers.Tag) providers.Status {
	return providers.Status{
		ID: providerID(h.spec.Name, m), Tag: tag, Host: h.spec.Name,
		State: providers.StateIncomplete, Reason: "DisksOnly", Message: "the host has the machine's disks but no domain", ObservedAt: h.p.opts.Now(),
	}
}

// ListByTag finds every machine that carries the tag, host by host and all hosts at once.
func (p *Provider) ListByTag(ctx context.Context, tag providers.Tag) (providers.Listing, error) {
	out := providers.Listing{Unanswered: map[string]error{}}
	if tag.ClusterID != string(p.cluster) {
		return out, &providers.Error{Kind: providers.Invalid, Msg: "listing needs the cluster ID of this installation; machines of others are foreign"}
	}
	type answer struct {
		host     string
		machines []providers.Status
		err      error
	}
	hosts := p.allHosts()
	answers := make(chan answer, len(hosts))
	for _, h := range hosts {
		go func() {
			machines, err := h.list(ctx, tag)
			answers <- answer{h.spec.Name, machines, err}
		}()
	}
	for range hosts {
		a := <-answers
		if a.err != nil {
			out.Unanswered[a.host] = a.err
			continue
		}
		out.Machines = append(out.Machines, a.machines...)
	}
	slices.SortFunc(out.Machines, func(a, b providers.Status) int { return compareIDs(a.ID, b.ID) })
	return out, nil
}

func compareIDs(a, b providers.ProviderID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
