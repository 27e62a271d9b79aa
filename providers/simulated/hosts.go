package simulated

import (
	"context"
	"net/url"
	"reflect"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

// SetHost implements providers.HostSource. The URI needs a scheme, any scheme; nothing is connected to.
func (p *Provider) SetHost(_ context.Context, h providers.Host) error {
	if u, err := url.Parse(h.URI); err != nil || u.Scheme == "" {
		return &providers.Error{Kind: providers.Invalid, Reason: "InvalidURI", Host: h.Name, Msg: "uri has no scheme: give sim://" + h.Name}
	}
	if h.Name == "" {
		return invalid("InvalidSpec", "the host has no name")
	}
	return p.world.do(func() error {
		if p.ended != nil {
			return p.ended
		}
		if old, ok := p.hosts[h.Name]; ok && reflect.DeepEqual(old, h) {
			return nil
		}
		p.hosts[h.Name] = h
		p.world.hostChanged(h.Name)
		return nil
	})
}

// RemoveHost implements providers.HostSource.
func (p *Provider) RemoveHost(_ context.Context, name string) error {
	return p.world.do(func() error {
		delete(p.hosts, name)
		return p.ended
	})
}

// HostStatus implements providers.HostSource.
func (p *Provider) HostStatus(_ context.Context, name string) (providers.HostStatus, error) {
	var s providers.HostStatus
	err := p.world.do(func() error {
		spec, ok := p.hosts[name]
		switch {
		case p.ended != nil:
			return p.ended
		case !ok:
			return &providers.Error{Kind: providers.NotFound, Reason: "HostUnknown", Host: name, Msg: "no such host"}
		}
		s = p.hostStatus(spec)
		return nil
	})
	return s, err
}

func (p *Provider) hostStatus(spec providers.Host) providers.HostStatus {
	_, err := p.reach(spec.Name)
	h := p.world.host(spec.Name)
	s := providers.HostStatus{
		Connected: err, Storage: h.knownStorage, Network: h.knownNetwork, LastSeen: h.lastSeen,
		LibvirtVersion: "11.3.0", HypervisorVersion: "10.0.3", VirtType: spec.VirtType,
		HostUUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(spec.Name)).String(),
		Capacity: p.opt.Capacity, Images: len(h.images),
	}
	if s.VirtType == "" || s.VirtType == providers.VirtTypeAuto {
		s.VirtType = providers.VirtTypeKVM
	}
	s.Capacity.StorageFreeBytes = s.Capacity.StorageBytes
	for _, m := range h.machines {
		s.Capacity.StorageFreeBytes -= m.diskBytes
		switch {
		case !m.defined:
		case m.tag.ClusterID == p.opt.ClusterID:
			s.Machines++
		default:
			s.ForeignMachines++
		}
	}
	if h.full || s.Capacity.StorageFreeBytes < 0 {
		s.Capacity.StorageFreeBytes = 0
	}
	if h.lastSeen.IsZero() { // never answered: nothing is known
		return providers.HostStatus{Connected: err}
	}
	return s
}
