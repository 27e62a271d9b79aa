package hypervisor

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
)

const (
	actionReconcile = "Reconcile"
	// maxNote is what the API takes of an event's note, in bytes, less room for the condition's name.
	maxNote = 960
)

// emit writes an event for every condition that took another status or reason; Ready repeats the others.
func (r *Reconciler) emit(before, after *v1alpha1.Hypervisor) {
	for _, c := range after.Status.Conditions {
		old := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		same := old != nil && old.Status == c.Status && old.Reason == c.Reason
		if same || c.Type == v1alpha1.ConditionReady || c.Reason == v1alpha1.ReasonPending {
			continue
		}
		kind := corev1.EventTypeNormal
		if c.Status != metav1.ConditionTrue && c.Reason != v1alpha1.ReasonConnecting {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(after, nil, kind, c.Reason, actionReconcile, "%s", c.Type+": "+c.Message[:min(len(c.Message), maxNote)])
	}
}
