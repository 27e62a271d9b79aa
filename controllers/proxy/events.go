package proxy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/steps"
)

// Reasons and actions of events, besides the conditions' reasons.
const (
	eventAbandoned  = "Abandoned"
	eventNotReady   = "NotReady"
	actionDelete    = "Delete"
	actionReconcile = "Reconcile"
	// maxNote is what the API takes of an event's note, in bytes.
	maxNote = 1024
)

// emit writes an event for every condition that took another status or reason. Those that merely wait for an earlier one
// are no news, and Ready repeats others, so only its turning is.
func (r *Reconciler) emit(before, after *v1alpha1.Proxy, result steps.Result) {
	for _, c := range after.Status.Conditions {
		old := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		if !news(old, c) {
			continue
		}
		kind, reason := corev1.EventTypeNormal, c.Reason
		if alarming(c, result) {
			kind = corev1.EventTypeWarning
		}
		if c.Type == v1alpha1.ConditionReady && c.Status != metav1.ConditionTrue {
			kind, reason = corev1.EventTypeWarning, eventNotReady
		}
		r.Recorder.Eventf(after, nil, kind, reason, actionReconcile, "%s", c.Type+": "+c.Message[:min(len(c.Message), maxNote-64)])
	}
}

func news(old *metav1.Condition, c metav1.Condition) bool {
	switch {
	case c.Type == v1alpha1.ConditionReady:
		wasReady := old != nil && old.Status == metav1.ConditionTrue
		return wasReady != (c.Status == metav1.ConditionTrue)
	case c.Reason == v1alpha1.ReasonPending, c.Reason == v1alpha1.ReasonProbing:
		return false
	default:
		return old == nil || old.Status != c.Status || old.Reason != c.Reason
	}
}

// alarming: somebody should look.
func alarming(c metav1.Condition, result steps.Result) bool {
	switch {
	case c.Reason == v1alpha1.ReasonCloudInitError, c.Reason == v1alpha1.ReasonCloudInitDegraded:
		return true
	case c.Status == metav1.ConditionTrue || c.Reason != result.Reason:
		return false
	default:
		return result.Verdict == steps.VerdictStalled || result.Verdict == steps.VerdictFailed
	}
}
