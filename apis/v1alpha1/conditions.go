package v1alpha1

// Conditions of a Proxy, in the order in which they become true.
const (
	// ConditionScheduled: a hypervisor was chosen and its room is reserved.
	ConditionScheduled = "Scheduled"
	// ConditionProvisioned: image, disks and machine exist and the machine runs.
	ConditionProvisioned = "Provisioned"
	// ConditionAddressKnown: the machine has a routable address.
	ConditionAddressKnown = "AddressKnown"
	// ConditionBooted: what is known of the guest's first boot. Unknown where the guest cannot be asked.
	ConditionBooted = "Booted"
	// ConditionHealthy: requests through the proxy give the expected answer.
	ConditionHealthy = "Healthy"
	// ConditionPaused is there, and true, while the paused annotation stops every act on the object.
	ConditionPaused = "Paused"
	// ConditionReady: the proxy serves. For a Hypervisor: Proxies can be placed and kept there.
	ConditionReady = "Ready"
)

// Conditions of a Hypervisor, besides Ready.
const (
	// ConditionConnected: libvirt on the host answers.
	ConditionConnected = "Connected"
	// ConditionStorageReady: the storage pool exists and is active.
	ConditionStorageReady = "StorageReady"
	// ConditionNetworkReady: the network exists and is active, or the bridge exists.
	ConditionNetworkReady = "NetworkReady"
)

// Reasons of a Proxy's conditions. Reasons that come from a provider (ImageChecksumMismatch, ForeignDomain …) are listed
// in the documentation of that provider.
const (
	// ReasonPending: an earlier step has not come that far.
	ReasonPending = "Pending"
	// ReasonPaused: the paused annotation is set.
	ReasonPaused = "Paused"
	// ReasonDeleting: the object is being deleted.
	ReasonDeleting = "Deleting"

	// ReasonUserDataInvalid: cloud-init would refuse or ignore the user-data; the message names the line.
	ReasonUserDataInvalid = "UserDataInvalid"
	// ReasonVendorDataInvalid: the same of the vendor-data.
	ReasonVendorDataInvalid = "VendorDataInvalid"
	// ReasonNetworkConfigInvalid: the network-config is no version 1 or 2 document.
	ReasonNetworkConfigInvalid = "NetworkConfigInvalid"
	// ReasonAccessInvalid: the rendered squid cannot be closed with what spec.access says.
	ReasonAccessInvalid = "AccessInvalid"
	// ReasonSecretNotFound: a Secret or a key in it is missing; the Proxy goes on when it appears.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonConfigMapNotFound: a ConfigMap or a key in it is missing; the Proxy goes on when it appears.
	ReasonConfigMapNotFound = "ConfigMapNotFound"

	// ReasonScheduled: a hypervisor was chosen.
	ReasonScheduled = "Scheduled"
	// ReasonUnknownProvider: spec.provider names no provider of this manager.
	ReasonUnknownProvider = "UnknownProvider"
	// ReasonHypervisorNotFound: the named hypervisor does not exist.
	ReasonHypervisorNotFound = "HypervisorNotFound"
	// ReasonHypervisorNotReady: the named hypervisor is not Ready.
	ReasonHypervisorNotReady = "HypervisorNotReady"
	// ReasonNoFit: no hypervisor fits; the message says why, host by host.
	ReasonNoFit = "NoFit"
	// ReasonHostsUnanswered: the Proxy may have a machine on a host that does not answer.
	ReasonHostsUnanswered = "HostsUnanswered"

	// ReasonProvisioned: the machine runs.
	ReasonProvisioned = "Provisioned"
	// ReasonMachineStopped, ReasonMachinePaused, ReasonMachineFailed: the machine exists and does not run.
	ReasonMachineStopped = "MachineStopped"
	ReasonMachinePaused  = "MachinePaused"
	ReasonMachineFailed  = "MachineFailed"
	// ReasonMachineIncomplete: the machine is half made. ReasonMachineUnknown: its host gives no state of it.
	ReasonMachineIncomplete = "MachineIncomplete"
	ReasonMachineUnknown    = "MachineUnknown"
	// ReasonHostUnreachable: the host does not answer, so nothing can be told.
	ReasonHostUnreachable = "HostUnreachable"

	// ReasonAddressFound: an address is known.
	ReasonAddressFound = "AddressFound"
	// ReasonNoAddress: neither guest agent nor lease nor ARP knows an address yet.
	ReasonNoAddress = "NoAddress"

	// ReasonCloudInitDone, ReasonCloudInitDegraded, ReasonCloudInitRunning, ReasonCloudInitError: cloud-init's own word.
	ReasonCloudInitDone     = "CloudInitDone"
	ReasonCloudInitDegraded = "CloudInitDegraded"
	ReasonCloudInitRunning  = "CloudInitRunning"
	ReasonCloudInitError    = "CloudInitError"
	// ReasonBootUnknown: nobody could tell; the proxy's answers decide.
	ReasonBootUnknown = "BootUnknown"

	// ReasonProbeSucceeded: the last probes gave the expected answer.
	ReasonProbeSucceeded = "ProbeSucceeded"
	// ReasonProbing: no verdict yet.
	ReasonProbing = "Probing"
	// The reasons of an unhealthy proxy say what failureThreshold probes in a row saw.
	//
	// ReasonProxyUnreachable: nothing speaks HTTP at the endpoint.
	ReasonProxyUnreachable = "ProxyUnreachable"
	// ReasonAuthRejected: the proxy rejects the credentials of spec.access.credentialsRef (407).
	ReasonAuthRejected = "AuthRejected"
	// ReasonACLDenied: the proxy forbids the probe (403): allow health.url or the manager's address in its configuration.
	ReasonACLDenied = "AclDenied"
	// ReasonUpstreamUnreachable: the proxy answers and cannot reach or resolve the target.
	ReasonUpstreamUnreachable = "UpstreamUnreachable"
	// ReasonTimeout: the proxy took the request and gave no answer within health.timeout.
	ReasonTimeout = "Timeout"
	// ReasonWrongContent: the answer is not the expected one, as from a captive portal or a wrong health.url.
	ReasonWrongContent = "WrongContent"
	// The following say nothing about the proxy and leave the verdict as it was.
	//
	// ReasonTargetRefused: the target itself refuses (401, 403, 429, 5xx).
	ReasonTargetRefused = "TargetRefused"
	// ReasonTargetInvalid: health.url cannot be requested.
	ReasonTargetInvalid = "TargetInvalid"
	// ReasonProbeTargetUnavailable: the target does not answer without the proxy either.
	ReasonProbeTargetUnavailable = "ProbeTargetUnavailable"

	// ReasonReady: it serves.
	ReasonReady = "Ready"
	// ReasonBootDeadlineExceeded: it did not serve within spec.bootDeadline; the message says how far it came.
	ReasonBootDeadlineExceeded = "BootDeadlineExceeded"
)

// Reasons of a Hypervisor's conditions. Those that a provider gives (HostKeyUnknown, PoolNotFound …) are listed in its
// documentation.
const (
	// ReasonConnecting: the first connection is under way.
	ReasonConnecting = "Connecting"
	// ReasonHostNotConnected: the host does not answer; Connected says why.
	ReasonHostNotConnected = "HostNotConnected"
	// ReasonConnected: the host answers.
	ReasonConnected = "Connected"
	// ReasonCredentialsInvalid: a key of the credentials Secret is missing or cannot be used.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonActive: pool or network is there and active.
	ReasonActive = "Active"
	// ReasonUnschedulable: cordoned; Proxies on it stay.
	ReasonUnschedulable = "Unschedulable"
	// ReasonInUse: it is being deleted and Proxies still live on it.
	ReasonInUse = "InUse"
)
