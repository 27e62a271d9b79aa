package proxy

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/patch"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

const stepFinalize = "finalize"

// finalize removes the machine and then the finalizer: never the finalizer first, for a machine that nobody remembers runs
// for ever.
func (r *Reconciler) finalize(ctx context.Context, s *scope) steps.Outcome {
	if !controllerutil.ContainsFinalizer(s.proxy, v1alpha1.ProxyFinalizer) {
		return steps.Outcome{}
	}
	r.prober.Forget(s.key())
	result := r.removeMachine(ctx, s)
	if result.Verdict != steps.VerdictDone {
		if !s.abandoned() || !hopeless(result) {
			return steps.Outcome{Step: stepFinalize, Result: result}
		}
		r.Recorder.Eventf(s.proxy, nil, corev1.EventTypeWarning, eventAbandoned, actionDelete,
			"gave up on machine %q as the annotation %s says: %s", s.providerID, v1alpha1.AnnotationAbandon, result.Message)
	}
	controllerutil.RemoveFinalizer(s.proxy, v1alpha1.ProxyFinalizer)
	if err := patch.Finalizers(ctx, r.Client, s.before, s.proxy); err != nil {
		return steps.Outcome{Step: stepFinalize, Result: steps.Failed(err)}
	}
	r.gate.Open(s.uid())
	r.gate.Open(s.deleteKey())
	r.reservations.release(s.proxy.UID)
	r.memory.forget(s.proxy.UID)
	return steps.Outcome{}
}

// hopeless: the annotation may give up on it. A delete that is under way is not, nor is a question that only the API server could
// not answer: giving up on those would leave a machine on a host that is well.
func hopeless(result steps.Result) bool {
	return result.Verdict == steps.VerdictStalled || (result.Verdict == steps.VerdictFailed && providers.Known(result.Err))
}

// removeMachine is done when nothing of the machine is left, or nothing was ever made.
func (r *Reconciler) removeMachine(ctx context.Context, s *scope) steps.Result {
	if s.proxy.Status.Hypervisor == "" && !s.statusLost() {
		return steps.Done() // never placed: no host is asked, and none need be up
	}
	provider, err := r.Providers.Get(s.proxy.Spec.Provider)
	if err != nil {
		if s.proxy.Status.Hypervisor == "" {
			return steps.Done() // nothing can have been made by a provider that this manager does not have
		}
		return steps.Stalled(v1alpha1.ReasonUnknownProvider, err.Error(), 0)
	}
	s.provider = provider
	if s.providerID == "" {
		found, result := r.find(ctx, s)
		if result.Verdict != steps.VerdictDone || found == nil {
			return result
		}
		s.providerID = found.ID
	}
	return r.deleteMachine(ctx, s)
}

func (r *Reconciler) deleteMachine(ctx context.Context, s *scope) steps.Result {
	if closed, ok := r.gate.Closed(s.deleteKey(), 0); ok && !s.abandoned() {
		return closed
	}
	err := s.provider.Delete(ctx, s.providerID)
	if err == nil {
		r.gate.Open(s.deleteKey())
		return steps.Done()
	}
	outcome := providers.OutcomeOf(err)
	switch outcome.Retry {
	case providers.RetryPoll:
		return steps.Wait(v1alpha1.ReasonDeleting, err.Error(), pollProgress)
	case providers.RetryNever:
		return r.gate.Close(s.deleteKey(), 0, steps.Stalled(outcome.Reason, err.Error(), recheckStalled))
	default:
		if errors.Is(err, providers.Unreachable) {
			return steps.Retry(outcome.Reason, err, pollHost)
		}
		return r.gate.Close(s.deleteKey(), 0, steps.Retry(outcome.Reason, err, 0))
	}
}

// deleteKey is the gate of the delete: that of the create may be closed.
func (s *scope) deleteKey() string { return "delete/" + s.uid() }
