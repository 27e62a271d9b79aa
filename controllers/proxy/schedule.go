package proxy

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/conditions"
	"github.com/proxyard/proxyard/pkg/placement"
	"github.com/proxyard/proxyard/pkg/steps"
)

// reservations are choices that the cache does not show yet. Without them a burst of new Proxies would see one and the same
// least loaded hypervisor.
type reservations struct {
	mu    sync.Mutex
	byUID map[types.UID]reservation
}

type reservation struct {
	hypervisor string
	needs      placement.Resources
}

// schedule chooses a hypervisor once, and saves the choice before anything is made there.
func (r *Reconciler) schedule(ctx context.Context, s *scope) steps.Result {
	if s.proxy.Status.Hypervisor != "" {
		return steps.Done()
	}
	req, err := placementRequest(&s.proxy.Spec)
	if err != nil {
		return steps.Stalled(v1alpha1.ReasonNoFit, err.Error(), 0)
	}
	decision, err := r.reserve(ctx, s.proxy.UID, req)
	if err != nil {
		return steps.Failed(err)
	}
	switch decision.Outcome {
	case placement.Placed:
	case placement.NodeNotFound:
		return steps.Wait(v1alpha1.ReasonHypervisorNotFound, decision.Message, resync)
	case placement.NodeNotReady:
		return steps.Wait(v1alpha1.ReasonHypervisorNotReady, decision.Message, resync)
	case placement.NoFit:
		return steps.Wait(v1alpha1.ReasonNoFit, decision.Message, resync)
	}
	s.proxy.Status.Hypervisor = decision.Node
	if err := r.save(ctx, s); err != nil {
		r.reservations.release(s.proxy.UID)
		return steps.Failed(err)
	}
	return steps.Done()
}

// reserve chooses over a snapshot of the cache and the open reservations, and reserves the choice, as one act.
func (r *Reconciler) reserve(ctx context.Context, uid types.UID, req placement.Request) (placement.Decision, error) {
	r.reservations.mu.Lock()
	defer r.reservations.mu.Unlock()
	var hypervisors v1alpha1.HypervisorList
	var proxies v1alpha1.ProxyList
	// The snapshot is only read, so the cache's own objects do.
	if err := r.Client.List(ctx, &hypervisors, client.UnsafeDisableDeepCopy); err != nil {
		return placement.Decision{}, err
	}
	if err := r.Client.List(ctx, &proxies, client.UnsafeDisableDeepCopy); err != nil {
		return placement.Decision{}, err
	}
	allocated := r.reservations.allocated(proxies.Items)
	nodes := make([]placement.Node, 0, len(hypervisors.Items))
	for i := range hypervisors.Items {
		n := node(&hypervisors.Items[i])
		n.Allocated = allocated[n.Name]
		nodes = append(nodes, n)
	}
	decision := placement.Choose(req, nodes)
	if decision.Outcome == placement.Placed {
		r.reservations.byUID[uid] = reservation{hypervisor: decision.Node, needs: req.Needs}
	}
	return decision, nil
}

// allocated sums what is placed and what is reserved, and drops reservations that the cache has caught up with. The lock is
// held.
func (v *reservations) allocated(proxies []v1alpha1.Proxy) map[string]placement.Resources {
	sum := map[string]placement.Resources{}
	open := make(map[types.UID]reservation, len(v.byUID))
	for i := range proxies {
		p := &proxies[i]
		reserved, ok := v.byUID[p.UID]
		switch {
		case p.Status.Hypervisor != "":
			sum[p.Status.Hypervisor] = sum[p.Status.Hypervisor].Add(needs(&p.Spec))
		case ok:
			sum[reserved.hypervisor] = sum[reserved.hypervisor].Add(reserved.needs)
			open[p.UID] = reserved
		}
	}
	v.byUID = open
	return sum
}

func (v *reservations) release(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.byUID, uid)
}

// notReady says why a hypervisor takes nothing, empty when it does.
func notReady(hv *v1alpha1.Hypervisor) string {
	if !hv.DeletionTimestamp.IsZero() {
		return "being deleted"
	}
	if conditions.IsTrue(hv.Status.Conditions, v1alpha1.ConditionReady) {
		return ""
	}
	if c := meta.FindStatusCondition(hv.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return "not ready (" + c.Reason + ")"
	}
	return "not ready"
}
