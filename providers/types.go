package providers

import (
	"net/netip"
	"time"
)

// Tag is the identity of a machine's owner. It is stored with the machine on its host and is the contract of garbage
// collection: nothing is touched whose tag is not ours.
type Tag struct {
	// ClusterID names the installation; two installations that share a host never touch each other's machines.
	ClusterID string
	Namespace string
	Name      string
	// UID is the owner's unique ID: a recreated owner of the same name is another owner.
	UID string
}

// Matches reports whether a machine tagged t is meant by the query q: every field that q sets is equal.
func (t Tag) Matches(q Tag) bool {
	eq := func(have, want string) bool { return want == "" || have == want }
	return eq(t.ClusterID, q.ClusterID) && eq(t.Namespace, q.Namespace) && eq(t.Name, q.Name) && eq(t.UID, q.UID)
}

// Machine is what the owner wants: one VM that boots a cloud image with the given cloud-init documents.
type Machine struct {
	Tag Tag
	// Host is the name of the host, as handed to HostSource.SetHost.
	Host string
	// Hostname is what the guest calls itself.
	Hostname  string
	Image     Image
	Resources Resources
	Firmware  Firmware
	// NoGuestAgent leaves out the channel to a guest agent: nobody asks the guest for anything.
	NoGuestAgent bool
	// UserData, VendorData and NetworkConfig are passed to cloud-init byte for byte; nil means: none given. The provider
	// adds meta-data, whose instance-id is stable for the machine.
	UserData, VendorData, NetworkConfig []byte
}

// Image names the cloud image that a machine boots.
type Image struct {
	// URL is http or https.
	URL string
	// Checksum is "sha256:<hex>" or "sha512:<hex>" of the bytes behind the URL.
	Checksum string
}

// Resources is the size of a machine.
type Resources struct {
	// CPUs is the number of virtual CPUs.
	CPUs int
	// MemoryBytes and DiskBytes are sizes in bytes; the disk is the root disk's virtual size.
	MemoryBytes, DiskBytes int64
}

// Firmware says how a machine boots.
type Firmware string

// The firmware kinds.
const (
	FirmwareBIOS           Firmware = "BIOS"
	FirmwareUEFI           Firmware = "UEFI"
	FirmwareUEFISecureBoot Firmware = "UEFISecureBoot"
)

// State is what a machine is doing, as far as its host knows.
type State string

// The states of a machine.
const (
	// StateIncomplete: disks without a machine; a create or a delete was cut off.
	StateIncomplete State = "Incomplete"
	StateRunning    State = "Running"
	StatePaused     State = "Paused"
	StateStopping   State = "Stopping"
	StateStopped    State = "Stopped"
	// StateFailed: the machine cannot go on by itself (crashed, disk I/O error); Status.Message says why.
	StateFailed State = "Failed"
	// StateUnknown: the host answered, but with a state that says nothing.
	StateUnknown State = "Unknown"
)

// Status is what is known of one machine.
type Status struct {
	ID    ProviderID
	Tag   Tag
	Host  string
	State State
	// Reason is one CamelCase word for the state, Message a sentence for people; both may be empty.
	Reason, Message string
	// Addresses holds routable addresses of the machine's own NIC, preferred first; empty while none is known.
	Addresses []Address
	// ObservedAt is when the host said so.
	ObservedAt time.Time
}

// Address is one address of a machine's NIC.
type Address struct {
	IP netip.Addr
	// Source tells who knew it: "agent", "lease" or "arp".
	Source string
	// LastSeen is when that source last reported it.
	LastSeen time.Time
}

// Listing is the answer of ListByTag.
type Listing struct {
	Machines []Status
	// Unanswered maps each host that did not answer completely to the reason.
	Unanswered map[string]error
}

// VirtType is how a host runs guests.
type VirtType string

// The virtualisation types.
const (
	VirtTypeAuto VirtType = "Auto"
	VirtTypeKVM  VirtType = "KVM"
	VirtTypeQEMU VirtType = "QEMU"
)

// Host is one place where machines can live.
type Host struct {
	Name string
	// URI says how to reach it, as in Hypervisor.spec.uri.
	URI string
	// Credentials holds the data of the credentials Secret under the Secret's own keys.
	Credentials map[string][]byte
	StoragePool string
	Network     Network
	VirtType    VirtType
}

// Network is what a machine's NIC is attached to: exactly one field is set.
type Network struct {
	// Name of a libvirt network.
	Name string
	// Bridge is the name of a bridge on the host.
	Bridge string
}

// HostStatus is what is known of a host. Zero values mean: not known yet.
type HostStatus struct {
	// Connected is nil while the host answers, else why it does not. Its kind and reason follow Error.
	Connected error
	// Storage and Network are nil when the pool and the network are there and active, else why not. They keep their last
	// value while the host does not answer.
	Storage, Network error
	// LibvirtVersion and HypervisorVersion are "major.minor.release".
	LibvirtVersion, HypervisorVersion string
	HostUUID                          string
	// VirtType is the resolved type: KVM or QEMU.
	VirtType VirtType
	Capacity Capacity
	// Machines counts our machines, ForeignMachines all others, Images the cached base images.
	Machines, ForeignMachines, Images int
	// LastSeen is when the host last answered.
	LastSeen time.Time
}

// Capacity is what a host has.
type Capacity struct {
	CPUs int
	// MemoryBytes is the host's memory; StorageBytes the pool's size, StorageFreeBytes what is left of it.
	MemoryBytes, StorageBytes, StorageFreeBytes int64
}

// Event says that something about a host, or about one machine on it, may have changed. Host is always set; an empty ID means
// the host itself, or any machine on it.
type Event struct {
	Host string
	ID   ProviderID
}

// CloudInitState is the result of a guest's first boot in cloud-init's own words.
type CloudInitState string

// The results of a first boot.
const (
	CloudInitRunning CloudInitState = "running"
	CloudInitDone    CloudInitState = "done"
	// CloudInitDegraded: done, with recoverable errors.
	CloudInitDegraded CloudInitState = "degraded"
	CloudInitError    CloudInitState = "error"
	// CloudInitUnknown: nobody could tell; BootReport.Message says why.
	CloudInitUnknown CloudInitState = "unknown"
)

// BootReport is what a guest says of its first boot.
type BootReport struct {
	CloudInit CloudInitState
	// Errors are cloud-init's own error texts.
	Errors []string
	// Reason and Message say why the state is unknown.
	Reason, Message string
}
