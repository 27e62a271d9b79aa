//go:build libvirt

package kvm_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm"
	"github.com/proxyard/proxyard/providers/kvm/conn"
	"github.com/proxyard/proxyard/providers/kvm/identity"
	"github.com/proxyard/proxyard/providers/providertest"
)

const testCluster = "4f1f7a53-6a8e-4a51-9a51-conformance"

// TestConformance runs the contract's suite against two real libvirt daemons.
func TestConformance(t *testing.T) {
	images := serveImages(t)
	h := harness{t: t, images: images}
	// The image is on the host before the suite cuts creates: its own upload has tests of its own.
	h.preload()
	providertest.Run(t, providertest.Harness{
		Name: kvm.Name, ClusterID: testCluster, OtherClusterID: "another-cluster",
		Hosts: hosts.specs(), New: h.new, Machine: func(*testing.T) providers.Machine { return images.machine() },
		PlantForeign: h.plantForeign, CrashAfter: h.crashAfter, CrashSteps: len(createEffects),
		SetHostDown: h.setDown, Leftovers: h.leftovers, StopInside: h.stopInside, BadImages: images.bad(),
		CaseTimeout: 3 * time.Minute,
	})
}

// createEffects are the effects of a create on a host that has the image: overlay, seed and its content, domain, start.
var createEffects = []string{"StorageVolCreateXML", "StorageVolCreateXML", "StorageVolUpload", "DomainDefineXMLFlags", "DomainCreate"}

type harness struct {
	t      *testing.T
	images *imageServer
}

func (h harness) new(t *testing.T, clusterID string) providers.Provider {
	return newProvider(t, clusterID, nil)
}

func newProvider(t *testing.T, clusterID string, hook conn.Hook) *kvm.Provider {
	t.Helper()
	p, err := kvm.New(kvm.Options{ClusterID: clusterID, StopGrace: 300 * time.Millisecond, PollInterval: time.Second, Hook: hook, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func (h harness) preload() {
	p := newProvider(h.t, testCluster, nil)
	for _, spec := range hosts.specs() {
		require.NoError(h.t, p.SetHost(h.t.Context(), spec))
	}
	for i, spec := range hosts.specs() {
		m := h.images.machine()
		m.Tag, m.Host = providers.Tag{ClusterID: testCluster, Namespace: "conformance", Name: "preload", UID: fmt.Sprint("preload-", i)}, spec.Name
		var st providers.Status
		require.EventuallyWithT(h.t, func(c *assert.CollectT) {
			var err error
			st, err = p.Create(h.t.Context(), m)
			require.NoError(c, err)
		}, time.Minute, 100*time.Millisecond)
		require.Eventually(h.t, func() bool { return p.Delete(h.t.Context(), st.ID) == nil }, time.Minute, 100*time.Millisecond)
	}
}

// dying is a hook under which everything fails once the k-th effect has happened.
type dying struct {
	mu   sync.Mutex
	left int
}

func (d *dying) dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left <= 0
}

func (d *dying) Before(context.Context, string, string) error {
	if d.dead() {
		return conn.ErrCut
	}
	return nil
}

func (d *dying) After(_ context.Context, _, procedure string, outcome error) error {
	if outcome != nil || !slices.Contains(createEffects, procedure) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left--
	if d.left <= 0 {
		return conn.ErrCut
	}
	return nil
}

func (h harness) crashAfter(t *testing.T, k int) (providers.Provider, func() bool) {
	d := &dying{left: k}
	return newProvider(t, testCluster, d), d.dead
}

func (h harness) setDown(_ *testing.T, host string, down bool) { hosts.host(host).setDown(h.t, down) }

func (h harness) stopInside(t *testing.T, m providers.Machine, _ providers.ProviderID) {
	hosts.host(m.Host).virsh(t, "destroy", names(m).domain)
}

func (h harness) leftovers(t *testing.T, m providers.Machine) []string {
	host, n := hosts.host(m.Host), names(m)
	var out []string
	for _, d := range strings.Fields(host.virsh(t, "list", "--all", "--uuid")) {
		if d == n.uuid {
			out = append(out, "domain")
		}
	}
	for _, f := range host.poolFiles(t) {
		if part, ok := strings.CutPrefix(f, n.domain); ok {
			out = append(out, part)
		}
	}
	return out
}

type machineNames struct{ domain, uuid string }

func names(m providers.Machine) machineNames {
	id := identity.MachineOf(m.Tag, m.Host)
	return machineNames{identity.Cluster(m.Tag.ClusterID).Domain(id), id.UUID.String()}
}

func (h harness) plantForeign(t *testing.T, m providers.Machine, as providertest.Foreign) func(*testing.T) {
	host, n := hosts.host(m.Host), names(m)
	name, uuid := n.domain, "0f0f0f0f-0000-4000-8000-000000000001"
	if as == providertest.SameIdentity {
		name, uuid = "somebodys-vm", n.uuid
	}
	host.define(t, fmt.Sprintf(`<domain type='qemu'><name>%s</name><uuid>%s</uuid><memory unit='MiB'>16</memory><os><type arch='x86_64' machine='q35'>hvm</type></os></domain>`, name, uuid))
	host.virsh(t, "start", name)
	t.Cleanup(func() { host.virsh(t, "destroy", name); host.virsh(t, "undefine", name) })
	look := func(t *testing.T) string {
		return host.virsh(t, "dumpxml", name) + host.virsh(t, "domstate", "--reason", name)
	}
	before := look(t)
	return func(t *testing.T) {
		t.Helper()
		require.Equal(t, before, look(t), "the foreign domain is as it was")
	}
}

// contextOf is the test's context without its end, for clean-ups.
func contextOf(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

func isAny(err error, kinds ...providers.Kind) bool {
	return slices.Contains(kinds, providers.KindOf(err))
}
