package kvm

import (
	"context"
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// Reasons of conflicts with what is not ours.
const (
	reasonForeignDomain = "ForeignDomain"
	reasonForeignVolume = "ForeignVolume"
)

// reasonPoolNotFound: libvirt does not know the pool.
const reasonPoolNotFound = "PoolNotFound"

// owned is a domain of which UUID and metadata both say that it is ours.
type owned struct {
	dom   libvirt.Domain
	meta  identity.Metadata
	state domainState
}

// find looks our domain up by its UUID. It is the only way to a domain that anything may be done to.
//
// Errors: NotFound, Exists (the UUID is there without our metadata), and what the connection says.
func (h *host) find(ctx context.Context, m identity.Machine) (owned, error) {
	o, err := conn.Call(ctx, h.conn, "DomainLookupByUUID", func(l *libvirt.Libvirt) (owned, error) {
		var o owned
		var err error
		if o.dom, err = l.DomainLookupByUUID(libvirt.UUID(m.UUID)); err != nil {
			return o, err
		}
		state, reason, err := l.DomainGetState(o.dom, 0)
		o.state = domainState{libvirt.DomainState(state), reason}
		return o, err
	})
	if err != nil {
		return owned{}, err
	}
	o.meta, err = h.metadata(ctx, o.dom)
	if err != nil {
		return owned{}, err
	}
	if !o.meta.Owns(h.p.cluster, m) {
		return owned{}, h.foreign(o.dom)
	}
	return o, nil
}

// metadata reads our element; a domain without one has zero Metadata, which owns nothing.
func (h *host) metadata(ctx context.Context, dom libvirt.Domain) (identity.Metadata, error) {
	doc, err := conn.Call(ctx, h.conn, "DomainGetMetadata", func(l *libvirt.Libvirt) (string, error) {
		return l.DomainGetMetadata(dom, int32(libvirt.DomainMetadataElement), libvirt.OptString{identity.MetadataURI}, libvirt.DomainAffectCurrent)
	})
	if err != nil {
		if code, _ := conn.Code(err); code == libvirt.ErrNoDomainMetadata {
			return identity.Metadata{}, nil
		}
		return identity.Metadata{}, err
	}
	meta, err := identity.ParseMetadata(doc)
	if err != nil {
		// Whoever wrote that into our name space, it does not prove that the domain is ours.
		return identity.Metadata{}, nil //nolint:nilerr // unreadable is foreign
	}
	return meta, nil
}

// nameFree makes sure that no other domain has the name that ours is going to have.
func (h *host) nameFree(ctx context.Context, m identity.Machine) error {
	dom, err := conn.Call(ctx, h.conn, "DomainLookupByName", func(l *libvirt.Libvirt) (libvirt.Domain, error) {
		return l.DomainLookupByName(h.p.cluster.Domain(m))
	})
	switch {
	case err == nil:
		return h.foreign(dom)
	case providers.KindOf(err) == providers.NotFound:
		return nil
	}
	return err
}

func (h *host) foreign(dom libvirt.Domain) error {
	return h.fail(providers.Exists, reasonForeignDomain, fmt.Sprintf("a domain named %q that Proxyard did not make is in the way; it stays untouched: rename or remove it on the host", dom.Name))
}
