// Package conditions sets and reads metav1.Conditions. The status.go of each controller is its only writer.
package conditions

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage bounds a message in bytes: it is a sentence for people, and the API allows 32,768 at most.
const maxMessage = 2048

// New builds a condition without the times and the generation, which Set adds.
func New(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// True builds a condition that is true.
func True(kind, reason, message string) metav1.Condition {
	return New(kind, metav1.ConditionTrue, reason, message)
}

// False builds a condition that is false.
func False(kind, reason, message string) metav1.Condition {
	return New(kind, metav1.ConditionFalse, reason, message)
}

// Unknown builds a condition of which nobody can tell.
func Unknown(kind, reason, message string) metav1.Condition {
	return New(kind, metav1.ConditionUnknown, reason, message)
}

// Set puts each condition into list; the transition time of one moves only with its status.
func Set(list *[]metav1.Condition, generation int64, now metav1.Time, all ...metav1.Condition) {
	for _, c := range all {
		c.ObservedGeneration = generation
		c.LastTransitionTime = now
		if len(c.Message) > maxMessage {
			c.Message = strings.ToValidUTF8(c.Message[:maxMessage-len("…")], "") + "…"
		}
		meta.SetStatusCondition(list, c)
	}
}

// IsTrue tells whether the condition is there and true.
func IsTrue(list []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(list, kind)
}
