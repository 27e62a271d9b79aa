package proxy

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/conditions"
	"github.com/proxyard/proxyard/pkg/patch"
	"github.com/proxyard/proxyard/pkg/probe"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

const (
	// probeWriteEvery is how often latency and time of a healthy proxy's probes are written: they change with every probe.
	probeWriteEvery = 5 * time.Minute
	// latencyGrain rounds the latency.
	latencyGrain = time.Millisecond
)

// finish is the one place that turns what a reconcile found out into a status, writes it if it changed, and says when to
// come back.
func (r *Reconciler) finish(ctx context.Context, s *scope) (ctrl.Result, error) {
	result, err := s.outcome.Result.Reconcile()
	logger := log.FromContext(ctx).WithValues("hypervisor", s.proxy.Status.Hypervisor, "providerID", s.providerID)
	if step := s.outcome.Step; step != "" {
		logger.V(1).Info("not done", "step", step, "reason", s.outcome.Result.Reason, "message", s.outcome.Result.Message)
	}
	if s.gone() || (err != nil && !s.fresh) {
		// Gone: there is nothing to write to. An error: this generation was not handled, and the status stays true of the last. The
		// very first one is written all the same: without any, the Proxy would look like one whose status got lost, and wait for
		// every host before it may go.
		return result, err
	}
	if s.probe == nil && !s.paused() {
		r.prober.Forget(s.key())
	}
	s.proxy.Status = derive(s, metav1.NewTime(r.Now()))
	if err := patch.Status(ctx, r.Client, s.before, s.proxy, s.before.Status, s.proxy.Status); err != nil {
		return ctrl.Result{}, err
	}
	// After the write: one that fails is tried again, and would tell everything twice.
	r.emit(s.before, s.proxy, s.outcome.Result)
	return result, err
}

// gone: the finalizer is away, and with it the object or soon so.
func (s *scope) gone() bool {
	return s.deleting() && !slices.Contains(s.proxy.Finalizers, v1alpha1.ProxyFinalizer)
}

// derive computes the status from the facts in the scope and from the status before. It is pure.
func derive(s *scope, now metav1.Time) v1alpha1.ProxyStatus {
	next := *s.proxy.Status.DeepCopy()
	generation := s.proxy.Generation
	if s.paused() {
		conditions.Set(&next.Conditions, generation, now, conditions.True(v1alpha1.ConditionPaused, v1alpha1.ReasonPaused,
			"nothing is done while the annotation "+v1alpha1.AnnotationPaused+" is \"true\""))
		return next
	}
	meta.RemoveStatusCondition(&next.Conditions, v1alpha1.ConditionPaused)
	next.ProviderID = string(s.providerID)
	if s.deleting() {
		conditions.Set(&next.Conditions, generation, now, deleted(s))
	} else {
		next.Addresses = s.addresses
		next.Boot = bootStatus(s)
		next.Probe = probeStatus(s, now)
		conditions.Set(&next.Conditions, generation, now, scheduled(s), provisioned(s), addressKnown(s), booted(s), healthy(s))
		conditions.Set(&next.Conditions, generation, now, ready(s, next.Conditions))
	}
	next.Endpoint = ""
	if conditions.IsTrue(next.Conditions, v1alpha1.ConditionReady) {
		next.Endpoint = s.endpoint()
	}
	next.Phase = phase(s, next.Conditions)
	if s.handled() {
		next.ObservedGeneration = generation
	}
	return next
}

// handled: this generation was looked at to the end. A Proxy of which nobody could tell whether it has a machine was not:
// its status must still read as lost at the next try.
func (s *scope) handled() bool {
	open := s.outcome.Step == stepIdentify || s.outcome.Step == stepFinalize
	return !(s.statusLost() && open)
}

// bootStatus is the last known word of the guest, and the console when the boot is overdue.
func bootStatus(s *scope) *v1alpha1.ProxyBoot {
	var next v1alpha1.ProxyBoot
	if old := s.before.Status.Boot; old != nil && !s.remade {
		next = *old.DeepCopy()
	}
	if s.report != nil {
		next.CloudInit = string(s.report.CloudInit)
		next.Errors = slices.Clone(s.report.Errors[:min(len(s.report.Errors), maxBootErrors)])
	}
	if s.serialTail != "" {
		next.SerialTail = s.serialTail
	}
	if s.probe != nil && s.probe.Health == probe.Healthy {
		next.SerialTail = ""
	}
	if next.CloudInit == "" && next.SerialTail == "" {
		return nil
	}
	return &next
}

// maxBootErrors is what the status holds.
const maxBootErrors = 16

// probeStatus is written when the verdict changes, and else rarely: every probe has other figures.
func probeStatus(s *scope, now metav1.Time) *v1alpha1.ProxyProbe {
	old := s.before.Status.Probe
	if s.remade {
		old = nil
	}
	if s.probe == nil || s.probe.Class == "" {
		return old
	}
	turned := (s.probe.Health == probe.Healthy) != s.wasHealthy()
	due := old == nil || old.LastSuccessTime == nil || now.Sub(old.LastSuccessTime.Time) >= probeWriteEvery
	if old != nil && !turned && (!due || s.probe.Health != probe.Healthy) {
		return old
	}
	next := &v1alpha1.ProxyProbe{}
	if !s.probe.LastSuccess.IsZero() {
		at := metav1.NewTime(s.probe.LastSuccess).Rfc3339Copy()
		next.LastSuccessTime = &at
		next.Latency = &metav1.Duration{Duration: max(s.probe.Latency.Round(latencyGrain), latencyGrain)}
	}
	if s.probe.Health == probe.Unhealthy {
		next.ConsecutiveFailures = int32(min(s.probe.Failures, 1<<30))
	}
	return next
}

// phase is the summary for people.
func phase(s *scope, now []metav1.Condition) v1alpha1.ProxyPhase {
	status := func(kind string) metav1.ConditionStatus {
		if c := meta.FindStatusCondition(now, kind); c != nil {
			return c.Status
		}
		return metav1.ConditionUnknown
	}
	switch {
	case s.deleting():
		return v1alpha1.PhaseDeleting
	case status(v1alpha1.ConditionReady) == metav1.ConditionTrue:
		return v1alpha1.PhaseReady
	case failed(s), status(v1alpha1.ConditionBooted) == metav1.ConditionFalse && bootFailed(s):
		return v1alpha1.PhaseFailed
	case status(v1alpha1.ConditionScheduled) != metav1.ConditionTrue:
		return v1alpha1.PhasePending
	case s.machine != nil && s.outcome.Step == stepMachine && notRunning(s.machine.State):
		return v1alpha1.PhaseStopped
	case status(v1alpha1.ConditionProvisioned) == metav1.ConditionUnknown:
		return v1alpha1.PhaseUnknown
	case s.providerID == "":
		return v1alpha1.PhaseScheduled
	case s.overdue, status(v1alpha1.ConditionHealthy) == metav1.ConditionFalse && s.served():
		return v1alpha1.PhaseUnhealthy
	default:
		return v1alpha1.PhaseProvisioning
	}
}

func failed(s *scope) bool {
	return s.outcome.Result.Verdict == steps.VerdictStalled || (s.machine != nil && s.machine.State == providers.StateFailed)
}

func notRunning(state providers.State) bool {
	return state == providers.StateStopped || state == providers.StatePaused || state == providers.StateStopping
}
