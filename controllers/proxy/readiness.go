package proxy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/conditions"
	"github.com/proxyard/proxyard/pkg/steps"
)

// ready is true when the proxy serves: its latest verdict is healthy and cloud-init did not fail. Else it repeats the first
// condition that stands in the way, or the deadline.
func ready(s *scope, now []metav1.Condition) metav1.Condition {
	const kind = v1alpha1.ConditionReady
	blocking := blocking(s, now)
	switch {
	case blocking == nil:
		return conditions.True(kind, v1alpha1.ReasonReady, "the proxy serves")
	case s.overdue && s.outcome.Result.Verdict != steps.VerdictStalled:
		return conditions.False(kind, v1alpha1.ReasonBootDeadlineExceeded, overdueMessage(s, *blocking, now))
	case blocking.Status == metav1.ConditionUnknown && s.stopped() == v1alpha1.ConditionProvisioned:
		return conditions.Unknown(kind, blocking.Reason, blocking.Message)
	default:
		return conditions.False(kind, blocking.Reason, blocking.Message)
	}
}

// blocking is the first condition that stands in the way of Ready. An unknown machine or boot does not: whether the proxy
// serves is seen without them.
func blocking(s *scope, now []metav1.Condition) *metav1.Condition {
	for _, c := range chain {
		i := slices.IndexFunc(now, func(x metav1.Condition) bool { return x.Type == c.condition })
		if i < 0 || now[i].Status == metav1.ConditionTrue {
			continue
		}
		switch {
		case c.condition == v1alpha1.ConditionProvisioned && s.unsure != nil:
		case c.condition == v1alpha1.ConditionBooted && !bootFailed(s):
		default:
			return &now[i]
		}
	}
	return nil
}

func overdueMessage(s *scope, blocking metav1.Condition, now []metav1.Condition) string {
	parts := []string{fmt.Sprintf("did not serve within %s: %s: %s", s.proxy.Spec.BootDeadline.Duration, blocking.Type, blocking.Message)}
	for _, c := range now {
		if c.Type == v1alpha1.ConditionBooted && c.Type != blocking.Type {
			parts = append(parts, fmt.Sprintf("cloud-init: %s: %s", c.Reason, c.Message))
		}
	}
	if b := bootStatus(s); b != nil && b.SerialTail != "" {
		parts = append(parts, "the console's last lines are in status.boot.serialTail")
	}
	return strings.Join(parts, "; ")
}

// deleted is the Ready condition of a Proxy that is being deleted.
func deleted(s *scope) metav1.Condition {
	r := s.outcome.Result
	reason, message := r.Reason, r.Message
	if reason == "" {
		reason, message = v1alpha1.ReasonDeleting, "the machine is being deleted"
	}
	return conditions.False(v1alpha1.ConditionReady, reason, message)
}
