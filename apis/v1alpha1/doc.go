// Package v1alpha1 holds the kinds of the API group proxyard.dev: Hypervisor, a remote libvirt host, and Proxy, one VM that
// serves as a forward proxy.
//
// +kubebuilder:object:generate=true
// +groupName=proxyard.dev
package v1alpha1
