// Package controllers holds one package a kind. Here is only what the manager may do besides what they ask for: read its
// cluster's identity, and compete for the lease in its own namespace.
//
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=proxyard-system,resources=leases,verbs=get;create;update;patch
// +kubebuilder:rbac:groups="";events.k8s.io,namespace=proxyard-system,resources=events,verbs=create;patch
package controllers
