package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProxySpec says what the machine is made of and how its service is judged.
//
// What the machine is made of cannot change: a changed image or cloud-config means another machine.
//
// +kubebuilder:validation:XValidation:rule="self.provider == oldSelf.provider",message="provider is immutable: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="self.image == oldSelf.image",message="image is immutable: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="self.resources == oldSelf.resources",message="resources are immutable: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="has(self.placement) == has(oldSelf.placement) && (!has(self.placement) || self.placement == oldSelf.placement)",message="placement is immutable: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="self.port == oldSelf.port",message="port is immutable: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="has(self.userData) == has(oldSelf.userData) && (!has(self.userData) || self.userData == oldSelf.userData)",message="userData is immutable, since cloud-init applies it once: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="has(self.userDataFrom) == has(oldSelf.userDataFrom) && (!has(self.userDataFrom) || self.userDataFrom == oldSelf.userDataFrom)",message="userDataFrom is immutable, since cloud-init applies it once: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="has(self.vendorData) == has(oldSelf.vendorData) && (!has(self.vendorData) || self.vendorData == oldSelf.vendorData)",message="vendorData is immutable, since cloud-init applies it once: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="has(self.networkConfig) == has(oldSelf.networkConfig) && (!has(self.networkConfig) || self.networkConfig == oldSelf.networkConfig)",message="networkConfig is immutable, since cloud-init applies it once: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="self.guestAgent == oldSelf.guestAgent",message="guestAgent is immutable: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="self.firmware == oldSelf.firmware",message="firmware is immutable: delete and recreate the Proxy"
// +kubebuilder:validation:XValidation:rule="has(self.userData) || has(self.userDataFrom) || (has(self.access) && has(self.access.allowedClients) && size(self.access.allowedClients) > 0)",message="without userData or userDataFrom a squid is rendered, and it needs access.allowedClients: Proxyard makes no open proxies"
// +kubebuilder:validation:XValidation:rule="!(has(self.userData) && has(self.userDataFrom))",message="set only one of userData and userDataFrom"
// +kubebuilder:validation:XValidation:rule="has(self.userData) || has(self.userDataFrom) || !has(oldSelf.access) || !has(oldSelf.access.allowedClients) || (has(self.access) && has(self.access.allowedClients) && self.access.allowedClients == oldSelf.access.allowedClients)",message="access.allowedClients is part of the rendered squid and immutable: delete and recreate the Proxy"
type ProxySpec struct {
	// Provider that makes the machine.
	// +kubebuilder:default=kvm
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9-]{0,30}$`
	Provider string `json:"provider,omitempty"`

	// Image is the cloud image that the machine boots.
	Image ProxyImage `json:"image"`

	// Resources is the size of the machine.
	// +kubebuilder:default={cpu: 1, memory: "512Mi", disk: "8Gi"}
	Resources ProxyResources `json:"resources,omitzero"`

	// Placement narrows the choice of the hypervisor. Without it the least loaded one that fits is taken.
	// +optional
	Placement *ProxyPlacement `json:"placement,omitempty"`

	// Port on which the proxy in the machine listens.
	// +kubebuilder:default=3128
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// UserData is the user-data for cloud-init, usually a document that starts with "#cloud-config". Whoever may read the
	// Proxy can read it; take userDataFrom for anything secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=524288
	UserData *string `json:"userData,omitempty"`

	// UserDataFrom takes the user-data from a Secret or ConfigMap in the Proxy's namespace.
	// +optional
	UserDataFrom *UserDataSource `json:"userDataFrom,omitempty"`

	// VendorData is passed to cloud-init as vendor-data. Nothing is ever added to it for a cloud-config user-data.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	VendorData *string `json:"vendorData,omitempty"`

	// NetworkConfig is passed to cloud-init as network-config (version 1 or 2). Match NICs by MAC address or with a wild card,
	// not by a fixed name. Without it cloud-init asks DHCP on the first NIC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	NetworkConfig *string `json:"networkConfig,omitempty"`

	// GuestAgent says whether the QEMU guest agent is added to the cloud-config: Install appends the package and its start,
	// Preinstalled and None leave the cloud-config as it is. With None nobody asks the guest.
	// +kubebuilder:default=Install
	GuestAgent GuestAgentMode `json:"guestAgent,omitempty"`

	// Firmware of the machine. UEFI has no keys enrolled; UEFISecureBoot has the vendor's.
	// +kubebuilder:default=BIOS
	Firmware Firmware `json:"firmware,omitempty"`

	// Access says who may use the proxy. Without userData it is rendered into the machine's squid; with userData it only
	// tells the health probe which credentials to send.
	// +optional
	Access *ProxyAccess `json:"access,omitempty"`

	// Health says how the service is judged.
	// +kubebuilder:default={}
	Health ProxyHealth `json:"health,omitzero"`

	// BootDeadline is how long the way from a running machine to the first successful probe may take before Ready says what is missing.
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="bootDeadline must be between 1m and 24h"
	BootDeadline metav1.Duration `json:"bootDeadline,omitempty"`
}

// ProxyImage names a cloud image.
type ProxyImage struct {
	// URL of a qcow2 or raw image, http or https.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/]+/')",message="image.url must be an http:// or https:// URL"
	URL string `json:"url"`
	// Checksum of the bytes behind the URL: "sha256:<64 hex digits>" or "sha512:<128 hex digits>". The image is cached on
	// each hypervisor under it.
	// +kubebuilder:validation:MaxLength=135
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$')",message="image.checksum must be sha256:<64 hex digits> or sha512:<128 hex digits>, in lower case"
	Checksum string `json:"checksum"`
}

// ProxyResources is the size of a machine.
type ProxyResources struct {
	// CPU is the number of virtual CPUs.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	CPU int32 `json:"cpu,omitempty"`
	// Memory in bytes, for example 512Mi.
	// +kubebuilder:default="512Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('128Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="resources.memory must be between 128Mi and 1Ti"
	Memory resource.Quantity `json:"memory,omitempty"`
	// Disk is the size of the root disk in bytes, for example 8Gi. It must not be smaller than the image.
	// +kubebuilder:default="8Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Ti')) <= 0",message="resources.disk must be between 64Mi and 16Ti"
	Disk resource.Quantity `json:"disk,omitempty"`
}

// ProxyPlacement names a hypervisor or selects some.
// +kubebuilder:validation:XValidation:rule="has(self.hypervisor) != has(self.hypervisorSelector)",message="set exactly one of placement.hypervisor and placement.hypervisorSelector"
type ProxyPlacement struct {
	// Hypervisor by name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Hypervisor string `json:"hypervisor,omitempty"`
	// HypervisorSelector selects Hypervisors by their labels.
	// +optional
	HypervisorSelector *metav1.LabelSelector `json:"hypervisorSelector,omitempty"`
}

// UserDataSource names one key of a Secret or of a ConfigMap.
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) != has(self.configMapKeyRef)",message="set exactly one of userDataFrom.secretKeyRef and userDataFrom.configMapKeyRef"
type UserDataSource struct {
	// SecretKeyRef names a key of a Secret in the Proxy's namespace.
	// +optional
	SecretKeyRef *KeyRef `json:"secretKeyRef,omitempty"`
	// ConfigMapKeyRef names a key of a ConfigMap in the Proxy's namespace.
	// +optional
	ConfigMapKeyRef *KeyRef `json:"configMapKeyRef,omitempty"`
}

// KeyRef names one key of an object in the same namespace.
type KeyRef struct {
	// Name of the object.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+([-.]+[a-z0-9]+)*$`
	Name string `json:"name"`
	// Key in its data.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
}

// GuestAgentMode says what is done about the QEMU guest agent.
// +kubebuilder:validation:Enum=Install;Preinstalled;None
type GuestAgentMode string

// The guest agent modes.
const (
	GuestAgentInstall      GuestAgentMode = "Install"
	GuestAgentPreinstalled GuestAgentMode = "Preinstalled"
	GuestAgentNone         GuestAgentMode = "None"
)

// Firmware of a machine.
// +kubebuilder:validation:Enum=BIOS;UEFI;UEFISecureBoot
type Firmware string

// The firmware kinds.
const (
	FirmwareBIOS           Firmware = "BIOS"
	FirmwareUEFI           Firmware = "UEFI"
	FirmwareUEFISecureBoot Firmware = "UEFISecureBoot"
)

// ProxyAccess says who may use the proxy.
type ProxyAccess struct {
	// AllowedClients are the networks (CIDR) whose clients may use the rendered squid.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="access.allowedClients must hold networks such as 10.0.0.0/8 or fd00::/8"
	AllowedClients []string `json:"allowedClients,omitempty"`
	// CredentialsRef names a kubernetes.io/basic-auth Secret in the Proxy's namespace (keys username and password). The
	// rendered squid then asks for them, and the health probe sends them.
	// +optional
	CredentialsRef *corev1.LocalObjectReference `json:"credentialsRef,omitempty"`
}

// ProxyHealth says how the service is judged: by real requests through the proxy.
// +kubebuilder:validation:XValidation:rule="!has(self.timeout) || !has(self.interval) || duration(self.timeout) <= duration(self.interval)",message="health.timeout must not be longer than health.interval"
type ProxyHealth struct {
	// URL that is requested through the proxy. Without it the manager's --probe-url is taken.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/]+')",message="health.url must be an http:// or https:// URL"
	URL string `json:"url,omitempty"`
	// ExpectedStatus is the HTTP status that counts as success. 204 also tells a captive portal from the target.
	// +kubebuilder:default=204
	// +kubebuilder:validation:Minimum=200
	// +kubebuilder:validation:Maximum=399
	ExpectedStatus int32 `json:"expectedStatus,omitempty"`
	// Interval between two probes.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="health.interval must be between 1s and 1h"
	Interval metav1.Duration `json:"interval,omitempty"`
	// Timeout of one probe.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('1m')",message="health.timeout must be between 100ms and 1m"
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// FailureThreshold is the number of failures in a row after which a healthy proxy is unhealthy.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
	// SuccessThreshold is the number of successes in a row after which a proxy is healthy.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
}

// ProxyPhase is a summary for people, derived from the conditions. Programs read the conditions.
// +kubebuilder:validation:Enum=Pending;Scheduled;Provisioning;Ready;Unhealthy;Stopped;Failed;Deleting;Unknown
type ProxyPhase string

// The phases of a Proxy.
const (
	PhasePending      ProxyPhase = "Pending"
	PhaseScheduled    ProxyPhase = "Scheduled"
	PhaseProvisioning ProxyPhase = "Provisioning"
	PhaseReady        ProxyPhase = "Ready"
	PhaseUnhealthy    ProxyPhase = "Unhealthy"
	PhaseStopped      ProxyPhase = "Stopped"
	PhaseFailed       ProxyPhase = "Failed"
	PhaseDeleting     ProxyPhase = "Deleting"
	PhaseUnknown      ProxyPhase = "Unknown"
)

// ProxyStatus is what is known of the machine and its service.
type ProxyStatus struct {
	// Phase is a summary for people. Programs read the conditions.
	// +optional
	Phase ProxyPhase `json:"phase,omitempty"`
	// Hypervisor on which the machine lives.
	// +optional
	Hypervisor string `json:"hypervisor,omitempty"`
	// ProviderID of the machine, for example kvm://kvm1/<domain UUID>.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// Addresses of the machine's NIC, preferred first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []ProxyAddress `json:"addresses,omitempty"`
	// Endpoint is host:port of the proxy while it is Ready.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// ObservedGeneration is the generation of the spec that was handled last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Scheduled, Provisioned, AddressKnown, Booted, Healthy, Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Boot is what is known of the guest's first boot.
	// +optional
	Boot *ProxyBoot `json:"boot,omitempty"`
	// Probe is the outcome of the latest probes.
	// +optional
	Probe *ProxyProbe `json:"probe,omitempty"`
}

// ProxyAddress is one address of the machine.
type ProxyAddress struct {
	// IP address.
	IP string `json:"ip"`
	// Source that knew it: agent, lease or arp.
	Source string `json:"source"`
}

// ProxyBoot is what is known of the guest's first boot.
type ProxyBoot struct {
	// CloudInit is cloud-init's own word: running, done, degraded, error, or unknown.
	// +optional
	CloudInit string `json:"cloudInit,omitempty"`
	// Errors are cloud-init's own error texts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Errors []string `json:"errors,omitempty"`
	// SerialTail holds the last lines of the serial console. It is filled when the Proxy is not Ready in time.
	// +optional
	SerialTail string `json:"serialTail,omitempty"`
}

// ProxyProbe is the outcome of the latest probes. It is written when the verdict changes, and otherwise at most every few
// minutes.
type ProxyProbe struct {
	// Latency of the last successful probe.
	// +optional
	Latency *metav1.Duration `json:"latency,omitempty"`
	// LastSuccessTime is when a probe last succeeded.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`
	// ConsecutiveFailures counts the failures since then.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
}

// Proxy is one small VM that serves as a forward proxy.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=px,categories=proxyard
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Hypervisor",type=string,JSONPath=`.status.hypervisor`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image.url`
// +kubebuilder:printcolumn:name="Latency",type=string,priority=1,JSONPath=`.status.probe.latency`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type Proxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ProxySpec `json:"spec"`
	// +optional
	Status ProxyStatus `json:"status,omitzero"`
}

// ProxyList is a list of Proxies.
// +kubebuilder:object:root=true
type ProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Proxy `json:"items"`
}
