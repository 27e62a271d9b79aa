// Package proxy reconciles Proxies: it chooses a hypervisor, has the machine made there, finds its address, and says that
// the Proxy is Ready while requests through it succeed. cmd/manager is its caller.
package proxy

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
	"github.com/proxyard/proxyard/pkg/probe"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// Waits. Events of hosts, probes and objects wake a Proxy at once; these are for those that get lost.
const (
	// resync is the wait of a Proxy with which all is well, and the longest of any other.
	resync = time.Minute
	// pollProgress is the wait for a provider that works on it, and for an address.
	pollProgress = 5 * time.Second
	// pollRestarted is the wait after a machine was started again.
	pollRestarted = time.Second
	// pollReference is the wait for a Secret or ConfigMap: they are never watched, since that would need the right to list
	// every Secret in the cluster.
	pollReference = 15 * time.Second
	// pollHost is the wait for a host that does not answer.
	pollHost = 30 * time.Second
	// recheckStalled is the wait after an error that only another spec can mend. It is not "never", since some causes go
	// away outside of the spec: a foreign domain is removed, an image is published.
	recheckStalled = 10 * time.Minute
	// reconcileTimeout bounds all calls of one reconcile together: a host that answers each of them slowly must not keep the
	// workers from the Proxies of the others.
	reconcileTimeout = 45 * time.Second
	// backoffFirst and backoffLongest bound the backoff of what a provider could not do.
	backoffFirst   = time.Second
	backoffLongest = 2 * time.Minute
)

// Options are what a Reconciler works with.
type Options struct {
	// Client reads Proxies and Hypervisors from the cache, and writes.
	Client client.Client
	// Reader reads single Secrets and ConfigMaps from the API server; it must not be cached.
	Reader client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
	// Providers by the name in spec.provider.
	Providers providers.Registry
	// ClusterID goes into every machine's tag.
	ClusterID string
	// ProbeURL is requested through Proxies without a health.url.
	ProbeURL string
	// ProbeConcurrency bounds the probes in flight.
	ProbeConcurrency int
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reconciler reconciles Proxies. Build it with New.
type Reconciler struct {
	Options
	prober       *probe.Prober
	gate         *steps.Gate
	reservations reservations
	memory       memory
	verdicts     *hints.Box[string]
	moves        *hints.Box[providers.Event]
}

// New builds a Reconciler.
func New(o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Reconciler{
		Options:  o,
		gate:     steps.NewGate(backoffFirst, backoffLongest, o.Now),
		verdicts: hints.NewBox[string](),
		moves:    hints.NewBox[providers.Event](),
	}
	r.prober = probe.NewProber(probe.Options{Concurrency: o.ProbeConcurrency, Changed: r.verdicts.Add})
	return r
}

// +kubebuilder:rbac:groups=proxyard.dev,resources=proxies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=proxyard.dev,resources=proxies/status,verbs=patch
// +kubebuilder:rbac:groups=proxyard.dev,resources=hypervisors,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// steps in the order in which they are taken. The conditions follow it, see status.go.
func (r *Reconciler) steps() []steps.Step[*scope] {
	return []steps.Step[*scope]{
		{Name: stepIdentify, Run: r.identify},
		{Name: stepDocument, Run: r.document},
		{Name: stepSchedule, Run: r.schedule},
		{Name: stepMachine, Run: r.machine},
		{Name: stepAddress, Run: r.address},
		{Name: stepBoot, Run: r.boot},
		{Name: stepProbe, Run: r.probe},
	}
}

// Reconcile converges one Proxy.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	proxy := &v1alpha1.Proxy{}
	if err := r.Client.Get(ctx, req.NamespacedName, proxy); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.prober.Forget(req.String())
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := newScope(proxy)
	defer func(ctx context.Context) { result, err = r.finish(ctx, s) }(ctx)
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	switch {
	case s.paused():
	case s.deleting():
		s.outcome = r.finalize(ctx, s)
	default:
		s.outcome = r.converge(ctx, s)
	}
	return
}

func (r *Reconciler) converge(ctx context.Context, s *scope) steps.Outcome {
	if err := r.ensureFinalizer(ctx, s); err != nil {
		return steps.Outcome{Result: steps.Failed(err)}
	}
	return steps.Run(ctx, s, r.steps())
}

// ensureFinalizer comes before anything outside is made, so that a Proxy that is deleted meanwhile takes its machine along.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	if !controllerutil.AddFinalizer(s.proxy, v1alpha1.ProxyFinalizer) {
		return nil
	}
	if err := patch.Finalizers(ctx, r.Client, s.before, s.proxy); err != nil {
		return err
	}
	s.before, s.fresh = s.proxy.DeepCopy(), true
	return nil
}

// save stores an identity in the status at once, before something outside is made under it.
func (r *Reconciler) save(ctx context.Context, s *scope) error {
	if err := patch.StatusLocked(ctx, r.Client, s.before, s.proxy); err != nil {
		return err
	}
	s.before = s.proxy.DeepCopy()
	return nil
}
