// Package index names the fields by which the cache finds Proxies, and tells the cache how. Both controllers look Proxies up
// by them; cmd/manager registers them once.
package index

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxyard/proxyard/apis/v1alpha1"
)

const (
	// Hypervisor is the field status.hypervisor of a Proxy; the value Unplaced finds those without.
	Hypervisor = "status.hypervisor"
	// Unplaced is no valid name of an object.
	Unplaced = "<none>"
	// ProviderID is the field status.providerID of a Proxy.
	ProviderID = "status.providerID"
)

// Functions are the index functions by field.
func Functions() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{
		Hypervisor: func(o client.Object) []string {
			if at := o.(*v1alpha1.Proxy).Status.Hypervisor; at != "" {
				return []string{at}
			}
			return []string{Unplaced}
		},
		ProviderID: func(o client.Object) []string {
			if id := o.(*v1alpha1.Proxy).Status.ProviderID; id != "" {
				return []string{id}
			}
			return nil
		},
	}
}

// Register adds the indexes to a cache that was not started yet.
func Register(ctx context.Context, cache client.FieldIndexer) error {
	for field, fn := range Functions() {
		if err := cache.IndexField(ctx, &v1alpha1.Proxy{}, field, fn); err != nil {
			return err
		}
	}
	return nil
}
