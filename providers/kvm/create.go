package kvm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/definition"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

// Create converges on one running machine: image, disks, domain, start. It can be cut off between any two calls; the next
// one finds what is there by its derived name and goes on.
func (p *Provider) Create(ctx context.Context, mc providers.Machine) (providers.Status, error) {
	if mc.Host == "" {
		return providers.Status{Tag: mc.Tag, State: providers.StateUnknown}, &providers.Error{Kind: providers.Invalid, Msg: "the machine has no host"}
	}
	m := identity.MachineOf(mc.Tag, mc.Host)
	st := providers.Status{ID: providerID(mc.Host, m), Tag: mc.Tag, Host: mc.Host, State: providers.StateUnknown}
	if err := errors.Join(p.validate(mc), alive(ctx)); err != nil {
		return st, err
	}
	h, ok := p.host(mc.Host)
	if !ok {
		return st, &providers.Error{Kind: providers.NotFound, Reason: "HypervisorNotFound", Host: mc.Host, Msg: "there is no Hypervisor of that name"}
	}
	unlock, err := h.machines.lock(ctx, m)
	if err != nil {
		return st, err
	}
	defer unlock()
	o, err := h.create(ctx, m, mc)
	if err != nil {
		return st, err
	}
	h.poke()
	return h.statusOf(m, o), nil
}

// alive refuses a call whose context has ended: nothing was asked, so nothing can be told.
func alive(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return &providers.Error{Kind: providers.Unreachable, Reason: "Cancelled", Msg: "the call had ended before the host was asked", Err: context.Cause(ctx)}
}

func (p *Provider) validate(mc providers.Machine) error {
	bad := func(msg string) error { return &providers.Error{Kind: providers.Invalid, Msg: msg} }
	switch {
	case mc.Tag.ClusterID != string(p.cluster):
		return bad("the machine belongs to another cluster")
	case mc.Tag.UID == "" || mc.Tag.Namespace == "" || mc.Tag.Name == "":
		return bad("the machine's owner is incomplete")
	case mc.Image.URL == "" || mc.Image.Checksum == "":
		return bad("image.url and image.checksum are both needed")
	case mc.Resources.CPUs < 1 || mc.Resources.MemoryBytes < 1<<20 || mc.Resources.DiskBytes < 1<<20:
		return bad("resources need at least one CPU, 1Mi of memory and 1Mi of disk")
	}
	return nil
}

func (h *host) create(ctx context.Context, m identity.Machine, mc providers.Machine) (owned, error) {
	o, err := h.find(ctx, m)
	switch {
	case err == nil && o.state.active():
		return o, nil
	case err == nil:
		return h.restart(ctx, m, mc, o)
	case providers.KindOf(err) != providers.NotFound:
		return owned{}, err
	}
	if err := errors.Join(h.preflight(), h.nameFree(ctx, m)); err != nil {
		return owned{}, err
	}
	o, err = h.make(ctx, m, mc)
	if err != nil && providers.KindOf(err) == providers.Invalid {
		// It can never work here, and nobody may come back to clean up.
		err = errors.Join(err, h.unmake(ctx, m))
	}
	return o, err
}

// restart starts a machine that is defined. What is missing of its disks is made again, unless they are in another pool than the
// one that the host has now.
func (h *host) restart(ctx context.Context, m identity.Machine, mc providers.Machine, o owned) (owned, error) {
	if err := h.preflight(); err != nil {
		return owned{}, err
	}
	if o.meta.Pool == h.spec.StoragePool {
		if _, err := h.ensureDisks(ctx, m, mc, true); err != nil {
			return owned{}, err
		}
	}
	if err := h.startDomain(ctx, o.dom); err != nil {
		return owned{}, err
	}
	return h.find(ctx, m)
}

// make makes a machine of which at most disks are there.
func (h *host) make(ctx context.Context, m identity.Machine, mc providers.Machine) (owned, error) {
	d, err := h.ensureDisks(ctx, m, mc, false)
	if err != nil {
		return owned{}, err
	}
	o, err := h.define(ctx, m, mc, d)
	if err != nil {
		return owned{}, err
	}
	h.forgetGuest(m)
	if err := h.startDomain(ctx, o.dom); err != nil {
		return owned{}, err
	}
	return h.find(ctx, m)
}

// unmake removes what a create made that turned out to be impossible.
func (h *host) unmake(ctx context.Context, m identity.Machine) error {
	o, err := h.find(ctx, m)
	switch {
	case err == nil:
		if err := errors.Join(h.destroy(ctx, o.dom), h.undefine(ctx, o.dom)); err != nil {
			return err
		}
	case providers.KindOf(err) != providers.NotFound:
		return err
	}
	return h.removeDisks(ctx, h.spec.StoragePool, m)
}

// define registers the domain with the host, ownership included: there is no moment at which ours looks foreign.
func (h *host) define(ctx context.Context, m identity.Machine, mc providers.Machine, d disks) (owned, error) {
	meta := identity.MetadataFor(mc.Tag, h.spec.Name, h.spec.StoragePool, digest(mc))
	element, err := meta.Marshal()
	if err != nil {
		return owned{}, err
	}
	h.mu.Lock()
	virtType := h.facts.virtType
	h.mu.Unlock()
	doc, err := definition.Domain{
		Name: h.p.cluster.Domain(m), UUID: m.UUID.String(), MAC: m.MAC(),
		Title:    fmt.Sprintf("Proxy %s/%s", mc.Tag.Namespace, mc.Tag.Name),
		Metadata: element, Resources: mc.Resources, Firmware: mc.Firmware, VirtType: virtType, Network: h.spec.Network, NoGuestAgent: mc.NoGuestAgent,
		RootPath: d.root, SeedPath: d.seed, ConsolePath: path.Join(path.Dir(d.root), h.p.cluster.Console(m)),
	}.XML()
	if err != nil {
		return owned{}, err
	}
	dom, err := conn.Call(ctx, h.conn, "DomainDefineXMLFlags", func(l *libvirt.Libvirt) (libvirt.Domain, error) {
		return l.DomainDefineXMLFlags(doc, 0)
	})
	if err != nil {
		return owned{}, fmt.Errorf("define the domain: %w", err)
	}
	return owned{dom: dom, meta: meta}, nil
}

// startDomain starts; a domain that somebody else started in the meantime is as good.
func (h *host) startDomain(ctx context.Context, dom libvirt.Domain) error {
	err := conn.Do(ctx, h.conn, "DomainCreate", func(l *libvirt.Libvirt) error { return l.DomainCreate(dom) })
	if err == nil {
		return nil
	}
	if code, _ := conn.Code(err); code == libvirt.ErrOperationInvalid {
		state, serr := conn.Call(ctx, h.conn, "DomainGetState", func(l *libvirt.Libvirt) (domainState, error) {
			s, r, err := l.DomainGetState(dom, 0)
			return domainState{libvirt.DomainState(s), r}, err
		})
		if serr == nil && state.active() {
			return nil
		}
	}
	return fmt.Errorf("start the domain: %w", err)
}

// digest identifies what was intended, so that machines are compared by it and never by XML, which libvirt rewrites.
func digest(mc providers.Machine) string {
	mc.Tag, mc.Host = providers.Tag{}, ""
	doc, err := json.Marshal(struct {
		Format  int
		Machine providers.Machine
	}{identity.FormatVersion, mc})
	if err != nil {
		panic(err) // strings, numbers and bytes always marshal
	}
	sum := sha256.Sum256(doc)
	return "sha256:" + hex.EncodeToString(sum[:])
}
