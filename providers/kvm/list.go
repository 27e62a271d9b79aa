package kvm

import (
	"context"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// list looks at the host itself, not at the last poll: what it answers decides about deleting and adopting.
func (h *host) list(ctx context.Context, tag providers.Tag) ([]providers.Status, error) {
	if err := h.answers(ctx); err != nil {
		return nil, err
	}
	if tag.UID != "" {
		return h.listOne(ctx, tag)
	}
	doms, err := conn.Call(ctx, h.conn, "ConnectListAllDomains", func(l *libvirt.Libvirt) ([]libvirt.Domain, error) {
		doms, _, err := l.ConnectListAllDomains(1, 0)
		return doms, err
	})
	if err != nil {
		return nil, err
	}
	var out []providers.Status
	seen := map[identity.Machine]bool{}
	for _, dom := range doms {
		m := identity.Machine{UUID: [16]byte(dom.UUID)}
		if dom.Name != h.p.cluster.Domain(m) {
			continue
		}
		seen[m] = true
		st, found, err := h.look(ctx, m)
		if err != nil {
			return nil, err
		}
		if found && st.Tag.Matches(tag) {
			out = append(out, st)
		}
	}
	half, err := h.listDisks(ctx, tag, seen)
	return append(out, half...), err
}

// listOne needs no search: an owner's machine has one possible identity on each host.
func (h *host) listOne(ctx context.Context, tag providers.Tag) ([]providers.Status, error) {
	m := identity.MachineOf(tag, h.spec.Name)
	st, found, err := h.look(ctx, m)
	if err != nil {
		return nil, err
	}
	if found {
		if !st.Tag.Matches(tag) {
			return nil, nil
		}
		return []providers.Status{st}, nil
	}
	st, err = h.getDisks(ctx, m, providers.Status{ID: providerID(h.spec.Name, m), Host: h.spec.Name})
	switch {
	case err == nil:
		st.Tag = tag
		return []providers.Status{st}, nil
	case providers.KindOf(err) == providers.NotFound:
		return nil, nil
	}
	return nil, err
}

// look finds our machine; one that is not there, or not ours, is not found.
func (h *host) look(ctx context.Context, m identity.Machine) (providers.Status, bool, error) {
	o, err := h.find(ctx, m)
	if err != nil {
		if k := providers.KindOf(err); k == providers.NotFound || k == providers.Exists {
			return providers.Status{}, false, nil
		}
		return providers.Status{}, false, err
	}
	return h.statusOf(m, o), true, nil
}

// listDisks finds machines of which only volumes are left. Their names tell the cluster and the machine, not the owner, so
// a query for a name finds none of them.
func (h *host) listDisks(ctx context.Context, tag providers.Tag, seen map[identity.Machine]bool) ([]providers.Status, error) {
	if tag.Namespace != "" || tag.Name != "" {
		return nil, nil
	}
	vols, err := h.volumes(ctx, h.spec.StoragePool)
	if err != nil {
		return nil, err
	}
	var out []providers.Status
	for _, v := range vols {
		m, ok := h.p.cluster.MachineOfName(v.Name)
		if !ok || seen[m] {
			continue
		}
		seen[m] = true
		out = append(out, h.disksOnly(m, providers.Tag{ClusterID: string(h.p.cluster)}))
	}
	return out, nil
}
