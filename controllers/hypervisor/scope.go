package hypervisor

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// scope is what one reconcile knows of one Hypervisor. The steps gather facts into it; status.go alone turns them into a
// status.
type scope struct {
	// before is the object as the API server has it, hv the one that is worked on. Set by Reconcile.
	before, hv *v1alpha1.Hypervisor
	// usage of the Proxies placed there. Set by usage; nil when they could not be counted.
	usage *usage
	// secret is the data of the credentials Secret. Set by credentials; nil when the spec names none.
	secret map[string][]byte
	// observed is the latest that the provider knows. Set by host; nil when the host could not be handed over.
	observed *providers.HostStatus
	// inUse: it is being deleted and Proxies still live on it. Set by finalize.
	inUse bool
	// outcome is how far the steps came. Set by Reconcile.
	outcome steps.Outcome
}

// usage is the sum over Proxies; memory and disk in bytes.
type usage struct {
	proxies           int32
	cpu, memory, disk int64
}

func newScope(hv *v1alpha1.Hypervisor) *scope { return &scope{before: hv.DeepCopy(), hv: hv} }

func (s *scope) deleting() bool { return !s.hv.DeletionTimestamp.IsZero() }
func (s *scope) paused() bool   { return s.hv.Annotations[v1alpha1.AnnotationPaused] == "true" }

// wanted is the host in the provider's words.
func (s *scope) wanted() providers.Host {
	spec := &s.hv.Spec
	return providers.Host{
		Name: s.hv.Name, URI: spec.URI, Credentials: s.secret, StoragePool: spec.StoragePool,
		Network:  providers.Network{Name: spec.Network.Name, Bridge: spec.Network.Bridge},
		VirtType: providers.VirtType(spec.VirtType),
	}
}

func capacity(c providers.Capacity) *v1alpha1.HypervisorResources {
	return amount(int64(c.CPUs), c.MemoryBytes, c.StorageBytes)
}

// allocatable is capacity times overcommit. Of the storage it is what is free plus what the Proxies' disks may hold, at most
// the pool: overlays are thin, so what they really hold lies between nothing and their size.
func allocatable(c providers.Capacity, o v1alpha1.Overcommit, u usage) *v1alpha1.HypervisorResources {
	storage := min(c.StorageFreeBytes+u.disk, c.StorageBytes)
	return amount(int64(c.CPUs)*int64(max(o.CPU, 1)), c.MemoryBytes*int64(max(o.Memory, 1)), coarse(storage))
}

func (u usage) amount() *v1alpha1.HypervisorResources { return amount(u.cpu, u.memory, u.disk) }

func amount(cpu, memory, storage int64) *v1alpha1.HypervisorResources {
	return &v1alpha1.HypervisorResources{
		CPU:     int32(min(cpu, 1<<30)),
		Memory:  *resource.NewQuantity(memory, resource.BinarySI),
		Storage: *resource.NewQuantity(storage, resource.BinarySI),
	}
}

// storageGrain is the step in which free storage is shown, in bytes: it moves with every block that a guest writes, and each
// move would be a write to the API server.
const storageGrain = 256 << 20

func coarse(bytes int64) int64 { return bytes - bytes%storageGrain }
