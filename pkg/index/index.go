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
		Hypervisor: of(func(s *v1alpha1.ProxyStatus) []string {
			if s.Hypervisor != "" {
				return []string{s.Hypervisor}
			}
			return []string{Unplaced}
		}),
		ProviderID: of(func(s *v1alpha1.ProxyStatus) []string {
			if s.ProviderID != "" {
				return []string{s.ProviderID}
			}
			return nil
		}),
	}
}

// of indexes a Proxy by what values finds in its status; nothing else is in an index of Proxies.
func of(values func(*v1alpha1.ProxyStatus) []string) client.IndexerFunc {
	return func(o client.Object) []string {
		p, ok := o.(*v1alpha1.Proxy)
		if !ok {
			return nil
		}
		return values(&p.Status)
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
