package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// identify finds the provider, and the machine of a Proxy whose status got lost: it is adopted by its tag, never made twice.
func (r *Reconciler) identify(ctx context.Context, s *scope) steps.Result {
	provider, err := r.Providers.Get(s.proxy.Spec.Provider)
	if err != nil {
		return steps.Stalled(v1alpha1.ReasonUnknownProvider, err.Error(), 0)
	}
	s.provider = provider
	if !s.statusLost() {
		return steps.Done()
	}
	if err := r.reread(ctx, s); err != nil {
		return steps.Failed(err)
	}
	if !s.statusLost() {
		return steps.Done()
	}
	found, result := r.find(ctx, s)
	if result.Verdict != steps.VerdictDone || found == nil {
		return result
	}
	log.FromContext(ctx).Info("adopted the machine of a proxy without status", "providerID", found.ID)
	s.providerID = found.ID
	s.proxy.Status.Hypervisor, s.proxy.Status.ProviderID = found.Host, string(found.ID)
	if err := r.save(ctx, s); err != nil {
		return steps.Failed(err)
	}
	return steps.Done()
}

// reread takes the object from the API server itself: a cache that is merely behind our own first write looks like a lost status.
func (r *Reconciler) reread(ctx context.Context, s *scope) error {
	live := &v1alpha1.Proxy{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(s.proxy), live); err != nil {
		return fmt.Errorf("read the proxy again: %w", err)
	}
	if live.UID != s.proxy.UID {
		return fmt.Errorf("the proxy was replaced by another of its name")
	}
	s.before, s.proxy, s.providerID = live.DeepCopy(), live, providers.ProviderID(live.Status.ProviderID)
	return nil
}

// find looks for the Proxy's machine on every host, or on the one it was placed on. Not found is a nil machine beside Done;
// when a host that may have it did not answer, the result is not done.
func (r *Reconciler) find(ctx context.Context, s *scope) (*providers.Status, steps.Result) {
	listing, err := s.provider.ListByTag(ctx, s.tag(r.ClusterID))
	if err != nil {
		o := providers.OutcomeOf(err)
		return nil, steps.Retry(o.Reason, err, pollHost)
	}
	if len(listing.Machines) > 0 {
		first := slices.MinFunc(listing.Machines, func(a, b providers.Status) int { return cmp.Compare(a.ID, b.ID) })
		return &first, steps.Done()
	}
	silent, err := r.silentHosts(ctx, s, listing)
	if err != nil {
		return nil, steps.Failed(err)
	}
	if at := s.proxy.Status.Hypervisor; at != "" {
		silent = slices.DeleteFunc(silent, func(name string) bool { return name != at })
	}
	if len(silent) > 0 {
		err := &providers.Error{Kind: providers.Unreachable, Msg: "its machine may be on a hypervisor that does not answer: " + strings.Join(silent, ", ")}
		return nil, steps.Retry(v1alpha1.ReasonHostsUnanswered, err, pollHost)
	}
	return nil, steps.Done()
}

// silentHosts are those of which the listing tells nothing: they did not answer, the provider was not given them yet, as
// after a start of the manager, or their object is gone while the Proxy was placed there.
func (r *Reconciler) silentHosts(ctx context.Context, s *scope, listing providers.Listing) ([]string, error) {
	silent := maps.Clone(listing.Unanswered)
	if silent == nil {
		silent = map[string]error{}
	}
	source, ok := s.provider.(providers.HostSource)
	if !ok {
		return slices.Sorted(maps.Keys(silent)), nil
	}
	var all v1alpha1.HypervisorList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(all.Items)+1)
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	if at := s.proxy.Status.Hypervisor; at != "" {
		names = append(names, at)
	}
	for _, name := range names {
		if _, err := source.HostStatus(ctx, name); err != nil {
			silent[name] = err
		}
	}
	return slices.Sorted(maps.Keys(silent)), nil
}
