package hypervisor

import (
	"context"

	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// host hands the host to the provider, which connects in the background, and takes what is known of it.
func (r *Reconciler) host(ctx context.Context, s *scope) steps.Result {
	if err := r.Source.SetHost(ctx, s.wanted()); err != nil {
		o := providers.OutcomeOf(err)
		if o.Retry == providers.RetryNever {
			return steps.Stalled(o.Reason, err.Error(), recheckStalled)
		}
		return steps.Retry(o.Reason, err, refresh)
	}
	observed, err := r.Source.HostStatus(ctx, s.hv.Name)
	if err != nil {
		return steps.Retry(providers.OutcomeOf(err).Reason, err, refresh)
	}
	s.observed = &observed
	return steps.DoneUntil(refresh)
}
