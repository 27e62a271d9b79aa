package hypervisor

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/hints"
	"github.com/proxyard/proxyard/providers"
)

// SetupWithManager registers the controller and what wakes Hypervisors. The cache needs the indexes of pkg/index.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	if err := mgr.Add(subscriber{r}); err != nil {
		return err
	}
	// Our own status writes wake us once more, on purpose: a reconcile that ran meanwhile may have read the cache from before the
	// write and found nothing to change in it. The extra one costs no call to a host and writes nothing.
	ours := predicate.ResourceVersionChangedPredicate{}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Hypervisor{}, builder.WithPredicates(ours)).
		Watches(&v1alpha1.Proxy{}, handler.EnqueueRequestsFromMapFunc(onProxy), builder.WithPredicates(placementChanged())).
		WatchesRawSource(hints.Source(r.moves, func(_ context.Context, host string) []reconcile.Request { return request(host) })).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// subscriber hears the provider's events while this manager leads.
type subscriber struct{ r *Reconciler }

var _ manager.LeaderElectionRunnable = subscriber{}

func (subscriber) NeedLeaderElection() bool { return true }

func (s subscriber) Start(ctx context.Context) error {
	if source, ok := s.r.Source.(providers.EventSource); ok {
		defer source.Subscribe(func(e providers.Event) {
			// Events of machines are the Proxies' business.
			if e.ID == "" {
				s.r.moves.Add(e.Host)
			}
		})()
	}
	<-ctx.Done()
	return nil
}

// onProxy wakes the Hypervisor that a Proxy is placed on; an update asks for the old and for the new object.
func onProxy(_ context.Context, o client.Object) []reconcile.Request {
	if p, ok := o.(*v1alpha1.Proxy); ok && p.Status.Hypervisor != "" {
		return request(p.Status.Hypervisor)
	}
	return nil
}

func request(name string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// placementChanged lets through what changes the sums.
func placementChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*v1alpha1.Proxy)
		after, ok2 := e.ObjectNew.(*v1alpha1.Proxy)
		return !ok1 || !ok2 || before.Status.Hypervisor != after.Status.Hypervisor
	}}
}
