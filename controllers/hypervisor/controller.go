// Package hypervisor reconciles Hypervisors: it hands each host with its credentials to the provider, and shows what the
// provider knows of it. cmd/manager is its caller.
package hypervisor

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/hints"
	"github.com/proxyard/proxyard/pkg/patch"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// Waits. Events of hosts and Proxies wake a Hypervisor at once; these are for those that get lost.
const (
	// refresh is the wait of a Hypervisor with which all is well. Credentials are read again as often, since Secrets are
	// never watched: this is how long a rotation takes.
	refresh = 30 * time.Second
	// pollReference is the wait for a Secret to appear.
	pollReference = 15 * time.Second
	// recheckStalled is the wait after an error of the spec or of the credentials; the latter are mended elsewhere.
	recheckStalled = time.Minute
)

// Options are what a Reconciler works with.
type Options struct {
	// Client reads Hypervisors and Proxies from the cache, and writes.
	Client client.Client
	// Reader reads the credentials Secrets from the API server; it must not be cached.
	Reader client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
	// Source takes the hosts.
	Source providers.HostSource
	// Namespace is the operator's own, where the credentials Secrets are.
	Namespace string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reconciler reconciles Hypervisors. Build it with New.
type Reconciler struct {
	Options
	moves *hints.Box[string]
}

// New builds a Reconciler.
func New(o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reconciler{Options: o, moves: hints.NewBox[string]()}
}

// +kubebuilder:rbac:groups=proxyard.dev,resources=hypervisors,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=proxyard.dev,resources=hypervisors/status,verbs=patch
// +kubebuilder:rbac:groups=proxyard.dev,resources=proxies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// steps in the order in which they are taken.
func (r *Reconciler) steps() []steps.Step[*scope] {
	return []steps.Step[*scope]{
		{Name: stepUsage, Run: r.usage},
		{Name: stepCredentials, Run: r.credentials},
		{Name: stepHost, Run: r.host},
	}
}

// Reconcile converges one Hypervisor.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	hv := &v1alpha1.Hypervisor{}
	if err := r.Client.Get(ctx, req.NamespacedName, hv); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := newScope(hv)
	defer func() { result, err = r.finish(ctx, s) }()
	switch {
	case s.paused():
	case s.deleting():
		s.outcome = r.finalize(ctx, s)
	default:
		s.outcome = r.converge(ctx, s)
	}
	return
}

// converge sets the finalizer before the host can be used.
func (r *Reconciler) converge(ctx context.Context, s *scope) steps.Outcome {
	if controllerutil.AddFinalizer(s.hv, v1alpha1.HypervisorFinalizer) {
		if err := patch.Finalizers(ctx, r.Client, s.before, s.hv); err != nil {
			return steps.Outcome{Result: steps.Failed(err)}
		}
		s.before = s.hv.DeepCopy()
	}
	return steps.Run(ctx, s, r.steps())
}
