package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VirtType says how a hypervisor runs guests.
// +kubebuilder:validation:Enum=Auto;KVM;QEMU
type VirtType string

// The virtualisation types.
const (
	// VirtTypeAuto takes KVM where the host CPU really has vmx or svm, else QEMU's emulation.
	VirtTypeAuto VirtType = "Auto"
	VirtTypeKVM  VirtType = "KVM"
	VirtTypeQEMU VirtType = "QEMU"
)

// HypervisorSpec says how to reach a libvirt host, where machines live on it and what it can carry.
//
// +kubebuilder:validation:XValidation:rule="self.storagePool == oldSelf.storagePool",message="storagePool is immutable, since the disks of the machines are there: declare another Hypervisor for another pool"
type HypervisorSpec struct {
	// URI of libvirt on the host: qemu+ssh://user@host:22/system, qemu+tls://host/system, qemu+tcp://host/system or
	// qemu+unix:///system. The query "socket=/path" names the libvirt socket where it is not the default one.
	// qemu+tcp is neither encrypted nor authenticated: whoever reaches the port is root on the host.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^qemu\\\\+(ssh|tls|tcp|unix)://')",message="uri must start with qemu+ssh://, qemu+tls://, qemu+tcp:// or qemu+unix://"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//[^/@]*:[^/@]*@')",message="uri must not hold a password, which everybody who may read the Hypervisor would see: use a key in credentialsRef"
	URI string `json:"uri"`

	// CredentialsRef names a Secret in the operator's namespace. qemu+ssh reads the keys ssh-privatekey, known_hosts and,
	// if the key has one, ssh-passphrase; qemu+tls reads tls.crt, tls.key and ca.crt.
	// +optional
	CredentialsRef *corev1.LocalObjectReference `json:"credentialsRef,omitempty"`

	// StoragePool is the libvirt storage pool (of type dir, fs or netfs) for images, disks and seeds. It must exist.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	StoragePool string `json:"storagePool,omitempty"`

	// Network is what the NIC of each machine is attached to. It must exist.
	// +kubebuilder:default={name: default}
	Network HypervisorNetwork `json:"network,omitzero"`

	// VirtType is Auto, KVM or QEMU. Auto takes KVM only where the host CPU really has vmx or svm.
	// +kubebuilder:default=Auto
	VirtType VirtType `json:"virtType,omitempty"`

	// Unschedulable keeps new Proxies away; those on it stay.
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`

	// Overcommit says how far the sum of the Proxies' resources may go beyond what the host has.
	// +kubebuilder:default={cpu: 4, memory: 1}
	Overcommit Overcommit `json:"overcommit,omitzero"`
}

// HypervisorNetwork is a libvirt network or a bridge.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.bridge)",message="set exactly one of network.name and network.bridge"
type HypervisorNetwork struct {
	// Name of a libvirt network. Addresses on it are known from its DHCP leases.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// Bridge is the name of a bridge on the host. Libvirt knows no leases there: addresses come from the guest agent.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]{1,15}$`
	Bridge string `json:"bridge,omitempty"`
}

// Overcommit holds whole-number factors.
type Overcommit struct {
	// CPU is how many virtual CPUs one host CPU carries.
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	CPU int32 `json:"cpu,omitempty"`
	// Memory is by how much the host's memory may be promised.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	Memory int32 `json:"memory,omitempty"`
}

// HypervisorStatus is what is known of the host.
type HypervisorStatus struct {
	// Conditions: Connected, StorageReady, NetworkReady, Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that was handled last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Versions of the software on the host.
	// +optional
	Versions *HypervisorVersions `json:"versions,omitempty"`
	// HostUUID is the host's own UUID as libvirt knows it.
	// +optional
	HostUUID string `json:"hostUUID,omitempty"`
	// VirtType is the one in use: KVM or QEMU.
	// +optional
	VirtType VirtType `json:"virtType,omitempty"`
	// Capacity is what the host has.
	// +optional
	Capacity *HypervisorResources `json:"capacity,omitempty"`
	// Allocatable is capacity times overcommit; of the storage, what is free plus what Proxies hold.
	// +optional
	Allocatable *HypervisorResources `json:"allocatable,omitempty"`
	// Allocated is the sum over the Proxies placed there.
	// +optional
	Allocated *HypervisorResources `json:"allocated,omitempty"`
	// Proxies is the number of Proxies placed there.
	// +optional
	Proxies int32 `json:"proxies,omitempty"`
	// ImagesCached is the number of base images in the pool.
	// +optional
	ImagesCached int32 `json:"imagesCached,omitempty"`
	// LastSeenTime is when the host last answered. It is written at most every few minutes while nothing else changes.
	// +optional
	LastSeenTime *metav1.Time `json:"lastSeenTime,omitempty"`
}

// HypervisorVersions holds versions as "major.minor.release".
type HypervisorVersions struct {
	// Libvirt is the daemon's version.
	Libvirt string `json:"libvirt,omitempty"`
	// QEMU is the emulator's version.
	QEMU string `json:"qemu,omitempty"`
}

// HypervisorResources is an amount of what machines use.
type HypervisorResources struct {
	// CPU is a number of CPUs.
	CPU int32 `json:"cpu"`
	// Memory in bytes.
	Memory resource.Quantity `json:"memory"`
	// Storage in the pool, in bytes.
	Storage resource.Quantity `json:"storage"`
}

// Hypervisor is one remote libvirt host on which Proxies live.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=hv,categories=proxyard
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Virt",type=string,JSONPath=`.status.virtType`
// +kubebuilder:printcolumn:name="Proxies",type=integer,JSONPath=`.status.proxies`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="URI",type=string,priority=1,JSONPath=`.spec.uri`
// +kubebuilder:printcolumn:name="Libvirt",type=string,priority=1,JSONPath=`.status.versions.libvirt`
// +kubebuilder:printcolumn:name="QEMU",type=string,priority=1,JSONPath=`.status.versions.qemu`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type Hypervisor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HypervisorSpec `json:"spec"`
	// +optional
	Status HypervisorStatus `json:"status,omitzero"`
}

// HypervisorList is a list of Hypervisors.
// +kubebuilder:object:root=true
type HypervisorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Hypervisor `json:"items"`
}
