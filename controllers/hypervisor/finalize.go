package hypervisor

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/patch"
	"github.com/proxyard/proxyard/pkg/steps"
)

const stepFinalize = "finalize"

// finalize lets a Hypervisor go when no Proxy lives on it. Until then the host stays connected: its Proxies can only be
// deleted through it, also after a restart of the manager.
func (r *Reconciler) finalize(ctx context.Context, s *scope) steps.Outcome {
	if !controllerutil.ContainsFinalizer(s.hv, v1alpha1.HypervisorFinalizer) {
		return steps.Outcome{}
	}
	inUse, err := r.inUse(ctx, s.hv.Name)
	if err != nil {
		return steps.Outcome{Step: stepFinalize, Result: steps.Failed(err)}
	}
	if inUse {
		s.inUse = true
		return steps.Run(ctx, s, r.steps())
	}
	if err := r.Source.RemoveHost(ctx, s.hv.Name); err != nil {
		return steps.Outcome{Step: stepFinalize, Result: steps.Failed(err)}
	}
	controllerutil.RemoveFinalizer(s.hv, v1alpha1.HypervisorFinalizer)
	if err := patch.Finalizers(ctx, r.Client, s.before, s.hv); err != nil {
		return steps.Outcome{Step: stepFinalize, Result: steps.Failed(err)}
	}
	return steps.Outcome{}
}

// inUse asks the API server itself: a Proxy that was placed a moment ago is not in the cache yet.
func (r *Reconciler) inUse(ctx context.Context, name string) (bool, error) {
	var all v1alpha1.ProxyList
	if err := r.Reader.List(ctx, &all); err != nil {
		return false, err
	}
	for i := range all.Items {
		if all.Items[i].Status.Hypervisor == name {
			return true, nil
		}
	}
	return false, nil
}
