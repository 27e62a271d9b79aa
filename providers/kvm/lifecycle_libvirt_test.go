//go:build libvirt

package kvm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm"
)

// rig is one provider on the first host, and one owner.
type rig struct {
	*kvm.Provider
	host   testHost
	images *imageServer
	m      providers.Machine
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Provider: newProvider(t, testCluster, nil), host: hosts[0], images: serveImages(t)}
	require.NoError(t, r.SetHost(t.Context(), hosts.specs()[0]))
	r.m = r.images.machine()
	r.m.Tag, r.m.Host = providers.Tag{ClusterID: testCluster, Namespace: "life", Name: "px", UID: uuid.NewString()}, r.host.Name
	t.Cleanup(func() {
		// A provider without memory: what this one forgot must be found.
		p := newProvider(t, testCluster, nil)
		require.NoError(t, p.SetHost(t.Context(), hosts.specs()[0]))
		id := providers.NewProviderID(kvm.Name, r.host.Name, names(r.m).uuid)
		require.Eventually(t, func() bool { return p.Delete(contextOf(t), id) == nil }, time.Minute, 100*time.Millisecond)
	})
	return r
}

// create waits while the provider works on it.
func (r *rig) create(t *testing.T) (providers.Status, error) {
	t.Helper()
	var (
		st  providers.Status
		err error
	)
	assert.Eventually(t, func() bool {
		st, err = r.Create(t.Context(), r.m)
		return err == nil || !isAny(err, providers.InProgress, providers.Busy, providers.Unreachable)
	}, time.Minute, 100*time.Millisecond)
	return st, err
}

func (r *rig) delete(t *testing.T, id providers.ProviderID) {
	t.Helper()
	require.Eventually(t, func() bool {
		err := r.Delete(t.Context(), id)
		if err != nil && !isAny(err, providers.InProgress, providers.Busy) {
			t.Fatal(err)
		}
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	assert.Empty(t, harness{t: t}.leftovers(t, r.m), "everything is gone")
}

func TestDeleteWhatHoldsOnToAMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*providers.Machine)
		act    func(t *testing.T, h testHost, domain string)
		reason string
	}{
		"managed save": {nil, func(t *testing.T, h testHost, d string) { h.virsh(t, "managedsave", d) }, "undefine is refused without the flag"},
		"snapshot":     {nil, func(t *testing.T, h testHost, d string) { h.virsh(t, "snapshot-create-as", d, "s1") }, "snapshots as well"},
		"NVRAM": {
			func(m *providers.Machine) { m.Firmware, m.Resources.MemoryBytes = providers.FirmwareUEFI, 256<<20 },
			func(*testing.T, testHost, string) {}, "a UEFI domain has a variable store of its own",
		},
		"domain already gone": {nil, func(t *testing.T, h testHost, d string) { h.virsh(t, "destroy", d); h.virsh(t, "undefine", d) }, "volumes are found by name"},
		"volume already gone": {nil, func(t *testing.T, h testHost, d string) {
			h.virsh(t, "destroy", d)
			h.virsh(t, "vol-delete", d+"-root.qcow2", "default")
		}, "gone is done"},
		"file removed by hand": {nil, func(t *testing.T, h testHost, d string) {
			require.NoError(t, os.Remove(filepath.Join(h.PoolDir, d+"-seed.iso")))
		}, "libvirt still lists it"},
		"paused":          {nil, func(t *testing.T, h testHost, d string) { h.virsh(t, "suspend", d) }, "a paused guest does not hear the power button"},
		"already stopped": {nil, func(t *testing.T, h testHost, d string) { h.virsh(t, "destroy", d) }, "not running is fine"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if tc.change != nil {
				tc.change(&r.m)
			}
			st, err := r.create(t)
			require.NoError(t, err)
			tc.act(t, r.host, names(r.m).domain)
			r.delete(t, st.ID)
			nvram, err := filepath.Glob(filepath.Join(r.host.PoolDir, "..", "qemu", "nvram", names(r.m).domain+"*"))
			require.NoError(t, err)
			assert.Empty(t, nvram, tc.reason)
		})
	}
}

func TestWhatIsNotOursStays(t *testing.T) {
	r := newRig(t)
	usage := regexp.MustCompile(`<(allocation|available) .*`) // others use the disk as well
	look := func() string {
		return usage.ReplaceAllString(r.host.virsh(t, "pool-dumpxml", "--inactive", "default"), "") + r.host.virsh(t, "net-dumpxml", "--inactive", "default") +
			r.host.virsh(t, "pool-list", "--all") + r.host.virsh(t, "net-list", "--all")
	}
	before := look()
	st, err := r.create(t)
	require.NoError(t, err)
	r.delete(t, st.ID)
	assert.Equal(t, before, look(), "pools and networks are never defined, changed or removed")
}

func TestForeignVolumeOfOurNameStays(t *testing.T) {
	r := newRig(t)
	name := names(r.m).domain + "-root.qcow2"
	r.host.virsh(t, "vol-create-as", "default", name, "1M", "--format", "raw")
	before, err := os.ReadFile(filepath.Join(r.host.PoolDir, name))
	require.NoError(t, err)
	_, err = r.create(t)
	require.ErrorIs(t, err, providers.Exists)
	require.ErrorContains(t, err, name)
	id := providers.NewProviderID(kvm.Name, r.host.Name, names(r.m).uuid)
	require.ErrorIs(t, r.Delete(t.Context(), id), providers.Exists, "the deleted owner does not take it along either")
	after, err := os.ReadFile(filepath.Join(r.host.PoolDir, name))
	require.NoError(t, err)
	assert.Equal(t, before, after)
	r.host.virsh(t, "vol-delete", name, "default")
}

func TestDisksAreWhatTheyShouldBe(t *testing.T) {
	r := newRig(t)
	_, err := r.create(t)
	require.NoError(t, err)
	d := names(r.m).domain
	overlay := r.host.virsh(t, "vol-dumpxml", d+"-root.qcow2", "default")
	assert.Contains(t, overlay, "<compat>1.1</compat>")
	_, backing, _ := strings.Cut(overlay, "<backingStore>")
	assert.Contains(t, backing, "<format type='raw'/>", "the base's format is stated: this one is raw")
	assert.Contains(t, overlay, fmt.Sprintf("<capacity unit='bytes'>%d</capacity>", r.m.Resources.DiskBytes))
	dom := r.host.virsh(t, "dumpxml", d)
	assert.NotContains(t, dom, "type='volume'", "AppArmor's helper cannot resolve volumes")
	assert.Contains(t, dom, r.m.Tag.UID, "ownership is in the metadata")
	assert.Contains(t, r.host.virsh(t, "vol-list", "default"), d+"-seed.iso", "the seed is a volume: it survives a reboot of the host")
}

func TestDiskSmallerThanImage(t *testing.T) {
	r := newRig(t)
	r.images.disk = append(r.images.disk, make([]byte, 32<<20)...)
	r.m.Image.Checksum = sum(r.images.disk)
	_, err := r.create(t)
	require.ErrorIs(t, err, providers.ErrPermanent)
	require.ErrorContains(t, err, "resources.disk is 16777216 bytes, but the image needs 34603008")
	assert.Empty(t, harness{t: t}.leftovers(t, r.m))
}

func TestRebootInTheGuestIsNoEnd(t *testing.T) {
	r := newRig(t)
	st, err := r.create(t)
	require.NoError(t, err)
	d := names(r.m).domain
	r.host.virsh(t, "reset", d)
	r.host.virsh(t, "qemu-monitor-command", d, "--hmp", "system_reset")
	assert.Equal(t, "running", strings.TrimSpace(r.host.virsh(t, "domstate", d)))
	again, err := r.Get(t.Context(), st.ID)
	require.NoError(t, err)
	assert.Equal(t, providers.StateRunning, again.State)
}

func TestRedefinedMachineKeepsItsAddress(t *testing.T) {
	r := newRig(t)
	_, err := r.create(t)
	require.NoError(t, err)
	d := names(r.m).domain
	mac := func() string { return r.host.virsh(t, "domiflist", d) }
	before := strings.Fields(mac())[4]
	r.host.virsh(t, "destroy", d)
	r.host.virsh(t, "undefine", d)
	st, err := r.create(t)
	require.NoError(t, err)
	assert.Equal(t, before, strings.Fields(mac())[4], "libvirt would give a new one")
	assert.Equal(t, names(r.m).uuid, strings.TrimPrefix(string(st.ID), "kvm://"+r.host.Name+"/"))
}

func TestPoolThatLibvirtForgotHoldsSomethingUnknown(t *testing.T) {
	r := newRig(t)
	st, err := r.create(t)
	require.NoError(t, err)
	d := names(r.m).domain
	r.host.virsh(t, "destroy", d)
	r.host.virsh(t, "undefine", d)
	r.host.virsh(t, "pool-destroy", "default")
	r.host.virsh(t, "pool-undefine", "default")
	back := func() {
		r.host.virsh(t, "pool-define-as", "default", "dir", "--target", "/var/lib/libvirt/images")
		r.host.virsh(t, "pool-start", "default")
	}
	_, err = r.Get(t.Context(), st.ID)
	gone := r.Delete(t.Context(), st.ID)
	back()
	require.ErrorIs(t, err, providers.Busy, "its disks may be there")
	require.ErrorIs(t, gone, providers.Busy)
	r.delete(t, st.ID)
}

func TestHostThatLacksSomething(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*providers.Host)
		storage string
		network string
	}{
		"no such pool":    {func(h *providers.Host) { h.StoragePool = "nowhere" }, "PoolNotFound", ""},
		"no such network": {func(h *providers.Host) { h.Network = providers.Network{Name: "nowhere"} }, "", "NetworkNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, testCluster, nil)
			spec := hosts.specs()[1]
			tc.change(&spec)
			require.NoError(t, p.SetHost(t.Context(), spec))
			var st providers.HostStatus
			require.Eventually(t, func() bool {
				var err error
				st, err = p.HostStatus(t.Context(), spec.Name)
				return err == nil && st.HostUUID != "" && reason(st.Storage) == tc.storage && reason(st.Network) == tc.network
			}, 30*time.Second, 50*time.Millisecond, "%+v", st)
			m := serveImages(t).machine()
			m.Tag, m.Host = providers.Tag{ClusterID: testCluster, Namespace: "n", Name: "n", UID: uuid.NewString()}, spec.Name
			_, err := p.Create(t.Context(), m)
			require.ErrorIs(t, err, providers.NotFound, "refused before anything is made")
		})
	}
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return providers.OutcomeOf(err).Reason
}
