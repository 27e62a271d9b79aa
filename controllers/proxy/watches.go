package proxy

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/hints"
	"github.com/proxyard/proxyard/pkg/index"
	"github.com/proxyard/proxyard/providers"
)

// SetupWithManager registers the controller, the prober and what wakes Proxies. The cache needs the indexes of pkg/index.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	if err := mgr.Add(r.prober); err != nil {
		return err
	}
	if err := mgr.Add(subscriber{r}); err != nil {
		return err
	}
	// Our own status writes wake us once more, on purpose: a reconcile that ran meanwhile may have read the cache from before the
	// write and found nothing to change in it. The extra one costs no call to a host and writes nothing.
	ours := predicate.ResourceVersionChangedPredicate{}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Proxy{}, builder.WithPredicates(ours)).
		Watches(&v1alpha1.Hypervisor{}, handler.EnqueueRequestsFromMapFunc(r.onHypervisor), builder.WithPredicates(hypervisorChanged())).
		WatchesRawSource(hints.Source(r.moves, r.onMove)).
		WatchesRawSource(hints.Source(r.verdicts, onVerdict)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// subscriber hears the providers' events while this manager leads.
type subscriber struct{ r *Reconciler }

var _ manager.LeaderElectionRunnable = subscriber{}

func (subscriber) NeedLeaderElection() bool { return true }

func (s subscriber) Start(ctx context.Context) error {
	var subscriptions []func()
	defer func() {
		for _, end := range subscriptions {
			end()
		}
	}()
	for _, name := range s.r.Providers.Names() {
		p, err := s.r.Providers.Get(name)
		if err != nil {
			return err
		}
		if source, ok := p.(providers.EventSource); ok {
			subscriptions = append(subscriptions, source.Subscribe(s.r.moves.Add))
		}
	}
	<-ctx.Done()
	return nil
}

// onMove finds the Proxy of a machine, or all that are placed on a host.
func (r *Reconciler) onMove(ctx context.Context, e providers.Event) []reconcile.Request {
	if e.ID != "" {
		return r.list(ctx, index.ProviderID, string(e.ID))
	}
	return r.list(ctx, index.Hypervisor, e.Host)
}

func onVerdict(_ context.Context, key string) []reconcile.Request {
	namespace, name, _ := strings.Cut(key, "/")
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// onHypervisor wakes the Proxies that live there and those that look for a place.
func (r *Reconciler) onHypervisor(ctx context.Context, o client.Object) []reconcile.Request {
	return append(r.list(ctx, index.Hypervisor, o.GetName()), r.list(ctx, index.Hypervisor, index.Unplaced)...)
}

func (r *Reconciler) list(ctx context.Context, field, value string) []reconcile.Request {
	var found v1alpha1.ProxyList
	if err := r.Client.List(ctx, &found, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list proxies", "field", field, "value", value)
		return nil
	}
	out := make([]reconcile.Request, 0, len(found.Items))
	for i := range found.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return out
}

// hypervisorChanged lets through what placement looks at.
func hypervisorChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*v1alpha1.Hypervisor)
		after, ok2 := e.ObjectNew.(*v1alpha1.Hypervisor)
		return !ok1 || !ok2 || !equality.Semantic.DeepEqual(node(before), node(after))
	}}
}
