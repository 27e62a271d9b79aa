package hypervisor

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/index"
	"github.com/proxyard/proxyard/pkg/steps"
)

// usage sums up the Proxies that are placed there.
func (r *Reconciler) usage(ctx context.Context, s *scope) steps.Result {
	var placed v1alpha1.ProxyList
	err := r.Client.List(ctx, &placed, client.MatchingFields{index.Hypervisor: s.hv.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return steps.Failed(err)
	}
	sum := sumUp(placed.Items)
	s.usage = &sum
	return steps.Done()
}

func sumUp(proxies []v1alpha1.Proxy) usage {
	var u usage
	for i := range proxies {
		r := &proxies[i].Spec.Resources
		u.proxies++
		u.cpu += int64(r.CPU)
		u.memory += r.Memory.Value()
		u.disk += r.Disk.Value()
	}
	return u
}
