package proxy

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// machine sees to it that the machine exists and runs.
func (r *Reconciler) machine(ctx context.Context, s *scope) steps.Result {
	if s.providerID == "" {
		return r.create(ctx, s)
	}
	status, err := s.provider.Get(ctx, s.providerID)
	switch {
	case err == nil && wantsCreate(status.State):
		s.machine = &status
		return r.create(ctx, s)
	case err == nil:
		r.gate.Open(s.uid())
		s.machine = &status
		return judge(status)
	case providers.KindOf(err) == providers.NotFound:
		s.remade = true
		return r.create(ctx, s)
	default:
		return r.couldNotTell(s, err)
	}
}

// wantsCreate: these states are not what the spec asks for, and Create mends them.
func wantsCreate(state providers.State) bool {
	return state == providers.StateIncomplete || state == providers.StateStopped || state == providers.StateFailed
}

// create has the provider make, repair or start the machine. The gate keeps events from repeating it before its time.
func (r *Reconciler) create(ctx context.Context, s *scope) steps.Result {
	if closed, ok := r.gate.Closed(s.uid(), s.proxy.Generation); ok {
		return closed
	}
	if result := r.prepare(ctx, s); result.Verdict != steps.VerdictDone {
		return result
	}
	status, err := s.provider.Create(ctx, s.wanted(r.ClusterID))
	if status.ID != "" {
		s.providerID = status.ID
	}
	if err == nil {
		return r.created(s, status)
	}
	outcome := providers.OutcomeOf(err)
	switch outcome.Retry {
	case providers.RetryPoll:
		return steps.Wait(outcome.Reason, err.Error(), pollProgress)
	case providers.RetryNever:
		return r.gate.Close(s.uid(), s.proxy.Generation, steps.Stalled(outcome.Reason, err.Error(), recheckStalled))
	default:
		return r.gate.Close(s.uid(), s.proxy.Generation, steps.Retry(outcome.Reason, err, 0))
	}
}

// created judges the machine after a Create that did not complain. One that had run before and was started again has
// interrupted its service: that must show before what comes next is looked at, so this reconcile ends here.
func (r *Reconciler) created(s *scope, status providers.Status) steps.Result {
	found := s.machine
	s.machine = &status
	result := judge(status)
	if result.Verdict != steps.VerdictDone {
		if status.State == providers.StateFailed {
			result.After = 0 // by the backoff: a guest that crashes at once must not keep its host busy
			return r.gate.Close(s.uid(), s.proxy.Generation, result)
		}
		return result
	}
	r.gate.Open(s.uid())
	if !s.interrupted() {
		return result
	}
	reason, message := v1alpha1.ReasonMachineStopped, "the machine was gone and has been made again"
	if found != nil {
		message = "the machine did not run and has been started again: " + judge(*found).Message
	}
	return steps.Wait(reason, message, pollRestarted)
}

// interrupted: the status still says that the machine runs or serves.
func (s *scope) interrupted() bool {
	c := s.condition(v1alpha1.ConditionProvisioned)
	return s.before.Status.Endpoint != "" || (c != nil && c.Status == metav1.ConditionTrue)
}

// couldNotTell answers for a host that said neither "there" nor "not there". A machine that had an address goes on being
// probed at it: whether the proxy serves can be seen without its host.
func (r *Reconciler) couldNotTell(s *scope, err error) steps.Result {
	outcome := providers.OutcomeOf(err)
	if outcome.Retry == providers.RetryNever {
		return steps.Stalled(outcome.Reason, err.Error(), recheckStalled)
	}
	result := steps.Retry(outcome.Reason, err, pollHost)
	if len(s.proxy.Status.Addresses) == 0 {
		return result
	}
	s.unsure = &result
	return steps.DoneUntil(pollHost)
}

// judge maps the state of a machine to what it means here. Incomplete and Stopped come here only right after a Create that
// did not complain: then it takes a moment.
func judge(status providers.Status) steps.Result {
	say := func(otherwise string) string {
		if status.Message != "" {
			return status.Message
		}
		return otherwise
	}
	switch status.State {
	case providers.StateRunning:
		return steps.Done()
	case providers.StatePaused:
		return steps.Wait(v1alpha1.ReasonMachinePaused, say("the machine is paused"), pollHost)
	case providers.StateStopping:
		return steps.Wait(v1alpha1.ReasonMachineStopped, say("the machine shuts down"), pollProgress)
	case providers.StateStopped:
		return steps.Wait(v1alpha1.ReasonMachineStopped, say("the machine is stopped"), pollProgress)
	case providers.StateFailed:
		return steps.Wait(v1alpha1.ReasonMachineFailed, say("the machine cannot go on by itself"), resync)
	case providers.StateIncomplete:
		return steps.Wait(v1alpha1.ReasonMachineIncomplete, say("the machine is half made"), pollProgress)
	default:
		return steps.Wait(v1alpha1.ReasonMachineUnknown, say("the host gives no state of the machine"), pollHost)
	}
}
