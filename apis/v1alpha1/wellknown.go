package v1alpha1

// Names that users and other programs may rely on.
const (
	// ProxyFinalizer keeps a Proxy until nothing of its machine is left.
	ProxyFinalizer = "proxyard.dev/machine"
	// HypervisorFinalizer keeps a Hypervisor while Proxies live on it.
	HypervisorFinalizer = "proxyard.dev/proxies"

	// AnnotationAbandon, set to "true" on a Proxy that is being deleted, gives up on a host that will not come back: the
	// finalizer goes although nobody saw the machine go.
	AnnotationAbandon = "proxyard.dev/abandon"
	// AnnotationPaused, set to "true", stops every act on the object until it is removed.
	AnnotationPaused = "proxyard.dev/paused"
)

// Keys of the Secret that Hypervisor.spec.credentialsRef names.
const (
	// SecretKeySSHPrivateKey holds an OpenSSH or PEM private key.
	SecretKeySSHPrivateKey = "ssh-privatekey"
	// SecretKeySSHPassphrase holds the passphrase of the key, if it has one.
	SecretKeySSHPassphrase = "ssh-passphrase"
	// SecretKeyKnownHosts holds lines in the form of OpenSSH's known_hosts.
	SecretKeyKnownHosts = "known_hosts"
	// SecretKeyTLSCert, SecretKeyTLSKey and SecretKeyCA hold PEM for qemu+tls.
	SecretKeyTLSCert = "tls.crt"
	SecretKeyTLSKey  = "tls.key"
	SecretKeyCA      = "ca.crt"
)

// Keys of the Secret that Proxy.spec.access.credentialsRef names: those of a kubernetes.io/basic-auth Secret.
const (
	SecretKeyUsername = "username"
	SecretKeyPassword = "password"
)
