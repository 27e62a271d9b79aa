package simulated

import (
	"slices"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

type subscription struct {
	p  *Provider
	fn func(providers.Event)
}

// change is what subscribers will hear: of a machine, or of the host alone when id is zero.
type change struct {
	host    string
	id      uuid.UUID
	cluster string
}

// Subscribe implements providers.EventSource. A call of fn that is under way when cancel is called may still end after it.
func (p *Provider) Subscribe(fn func(providers.Event)) (cancel func()) {
	s := &subscription{p: p, fn: fn}
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subs = append(w.subs, s)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.subs = slices.DeleteFunc(w.subs, func(x *subscription) bool { return x == s })
	}
}

// changed notes that a machine changed; the lock's holder delivers.
func (w *World) changed(h *hostState, m *machine) {
	w.pending = append(w.pending, change{host: h.name, id: m.id, cluster: m.tag.ClusterID})
}

func (w *World) hostChanged(name string) { w.pending = append(w.pending, change{host: name}) }

// takeEvents turns the noted changes into deliveries. A host that is down tells nobody anything but that.
func (w *World) takeEvents() []func() {
	var out []func()
	for _, c := range w.pending {
		if c.id != uuid.Nil && w.host(c.host).down {
			continue
		}
		for _, s := range w.subs {
			if _, ok := s.p.hosts[c.host]; !ok {
				continue
			}
			e := providers.Event{Host: c.host}
			if c.id != uuid.Nil && c.cluster == s.p.opt.ClusterID {
				e.ID = s.p.providerID(c.host, c.id)
			}
			out = append(out, func() { s.fn(e) })
		}
	}
	w.pending = nil
	return out
}
