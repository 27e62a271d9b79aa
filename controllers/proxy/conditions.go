package proxy

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/conditions"
	"github.com/proxyard/proxyard/pkg/probe"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// The names of the steps, in logs and here.
const (
	stepIdentify = "identify"
	stepDocument = "document"
	stepSchedule = "schedule"
	stepMachine  = "machine"
	stepAddress  = "address"
	stepBoot     = "boot"
	stepProbe    = "probe"
)

// chain is the order of the steps and the condition that each of them decides.
var chain = []struct{ step, condition string }{
	{stepIdentify, v1alpha1.ConditionScheduled},
	{stepDocument, v1alpha1.ConditionScheduled},
	{stepSchedule, v1alpha1.ConditionScheduled},
	{stepMachine, v1alpha1.ConditionProvisioned},
	{stepAddress, v1alpha1.ConditionAddressKnown},
	{stepBoot, v1alpha1.ConditionBooted},
	{stepProbe, v1alpha1.ConditionHealthy},
}

// stopped returns the condition that the run of steps ended at, empty when it came through.
func (s *scope) stopped() string {
	for _, c := range chain {
		if c.step == s.outcome.Step {
			return c.condition
		}
	}
	return ""
}

// unreached tells whether the run of steps ended before it came to that condition.
func (s *scope) unreached(condition string) bool {
	for _, c := range chain {
		switch {
		case c.condition == condition:
			return false
		case c.step == s.outcome.Step:
			return true
		}
	}
	return false
}

func (s *scope) pending(condition string) metav1.Condition {
	return conditions.Unknown(condition, v1alpha1.ReasonPending, "waits for "+s.stopped())
}

func scheduled(s *scope) metav1.Condition {
	const kind = v1alpha1.ConditionScheduled
	switch {
	case s.stopped() == kind:
		return conditions.New(kind, falseOrUnknown(s.outcome.Result), s.outcome.Result.Reason, s.outcome.Result.Message)
	default:
		return conditions.True(kind, v1alpha1.ReasonScheduled, fmt.Sprintf("placed on hypervisor %q", s.proxy.Status.Hypervisor))
	}
}

func provisioned(s *scope) metav1.Condition {
	const kind = v1alpha1.ConditionProvisioned
	switch {
	case s.unreached(kind):
		return s.pending(kind)
	case s.stopped() == kind:
		return conditions.New(kind, falseOrUnknown(s.outcome.Result), s.outcome.Result.Reason, s.outcome.Result.Message)
	case s.unsure != nil:
		return conditions.Unknown(kind, s.unsure.Reason, s.unsure.Message)
	default:
		return conditions.True(kind, v1alpha1.ReasonProvisioned, "the machine runs")
	}
}

// falseOrUnknown: a host that does not answer, or that gives no state, leaves it open.
func falseOrUnknown(r steps.Result) metav1.ConditionStatus {
	open := r.Reason == v1alpha1.ReasonMachineUnknown || r.Reason == v1alpha1.ReasonHostsUnanswered
	if r.Err != nil && providers.KindOf(r.Err) == providers.Unreachable {
		open = true
	}
	if open {
		return metav1.ConditionUnknown
	}
	return metav1.ConditionFalse
}

func addressKnown(s *scope) metav1.Condition {
	const kind = v1alpha1.ConditionAddressKnown
	switch {
	case s.unreached(kind):
		return s.pending(kind)
	case s.stopped() == kind:
		return conditions.False(kind, s.outcome.Result.Reason, s.outcome.Result.Message)
	default:
		return conditions.True(kind, v1alpha1.ReasonAddressFound, fmt.Sprintf("%s, known by %s", s.addresses[0].IP, s.addresses[0].Source))
	}
}

// booted keeps what was known when the guest was not asked now.
func booted(s *scope) metav1.Condition {
	const kind = v1alpha1.ConditionBooted
	old := s.condition(kind)
	switch {
	case s.report != nil:
		return bootedFrom(*s.report)
	case old != nil && !s.remade && old.Reason != v1alpha1.ReasonPending:
		return conditions.New(kind, old.Status, old.Reason, old.Message)
	case s.unreached(kind):
		return s.pending(kind)
	default:
		return conditions.Unknown(kind, v1alpha1.ReasonBootUnknown, "the guest was not asked yet")
	}
}

func bootedFrom(report providers.BootReport) metav1.Condition {
	const kind = v1alpha1.ConditionBooted
	said := func(otherwise string) string {
		if len(report.Errors) > 0 {
			return strings.Join(report.Errors, "; ")
		}
		return otherwise
	}
	switch report.CloudInit {
	case providers.CloudInitDone:
		return conditions.True(kind, v1alpha1.ReasonCloudInitDone, "cloud-init is done")
	case providers.CloudInitDegraded:
		return conditions.True(kind, v1alpha1.ReasonCloudInitDegraded, said("cloud-init is done, with recoverable errors"))
	case providers.CloudInitRunning:
		return conditions.False(kind, v1alpha1.ReasonCloudInitRunning, "cloud-init is running")
	case providers.CloudInitError:
		return conditions.False(kind, v1alpha1.ReasonCloudInitError, said("cloud-init ended with an error"))
	default:
		reason := report.Reason
		if reason == "" {
			reason = v1alpha1.ReasonBootUnknown
		}
		return conditions.Unknown(kind, reason, report.Message)
	}
}

// bootFailed: cloud-init ended with an error, now or earlier.
func bootFailed(s *scope) bool {
	if s.report != nil {
		return s.report.CloudInit == providers.CloudInitError
	}
	old := s.before.Status.Boot
	return old != nil && !s.remade && old.CloudInit == string(providers.CloudInitError)
}

func healthy(s *scope) metav1.Condition {
	const kind = v1alpha1.ConditionHealthy
	switch {
	case s.probe != nil:
		return healthyFrom(*s.probe)
	case s.unreached(kind):
		return s.pending(kind)
	default: // the probe step itself waits, for its credentials
		return conditions.Unknown(kind, s.outcome.Result.Reason, s.outcome.Result.Message)
	}
}

func healthyFrom(state probe.State) metav1.Condition {
	const kind = v1alpha1.ConditionHealthy
	var reason, message string
	switch state.Class {
	case "":
		reason, message = v1alpha1.ReasonProbing, "the first probe is under way"
	case probe.Success:
		reason, message = v1alpha1.ReasonProbeSucceeded, "requests through the proxy give the expected answer"
	default:
		reason, message = string(state.Class), state.Message
	}
	switch state.Health {
	case probe.Healthy:
		return conditions.True(kind, reason, message)
	case probe.Unhealthy:
		return conditions.False(kind, reason, message)
	default:
		return conditions.Unknown(kind, reason, message)
	}
}
