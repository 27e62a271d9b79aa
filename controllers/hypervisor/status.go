package hypervisor

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/conditions"
	"github.com/proxyard/proxyard/pkg/patch"
	"github.com/proxyard/proxyard/providers"
)

// lastSeenEvery is how often lastSeenTime is written while nothing else changes.
const lastSeenEvery = 5 * time.Minute

// The names of the steps, in logs and for the conditions.
const (
	stepUsage       = "usage"
	stepCredentials = "credentials"
	stepHost        = "host"
)

// finish is the one place that turns what a reconcile found out into a status, writes it if it changed, and says when to
// come back.
func (r *Reconciler) finish(ctx context.Context, s *scope) (ctrl.Result, error) {
	result, err := s.outcome.Result.Reconcile()
	if step := s.outcome.Step; step != "" {
		log.FromContext(ctx).V(1).Info("not done", "step", step, "reason", s.outcome.Result.Reason, "message", s.outcome.Result.Message)
	}
	gone := s.deleting() && !slices.Contains(s.hv.Finalizers, v1alpha1.HypervisorFinalizer)
	if gone || err != nil {
		return result, err
	}
	s.hv.Status = derive(s, metav1.NewTime(r.Now()))
	if err := patch.Status(ctx, r.Client, s.before, s.hv, s.before.Status, s.hv.Status); err != nil {
		return ctrl.Result{}, err
	}
	// After the write: one that fails is tried again, and would tell everything twice.
	r.emit(s.before, s.hv)
	return result, nil
}

// derive computes the status from the facts in the scope and from the status before. It is pure.
func derive(s *scope, now metav1.Time) v1alpha1.HypervisorStatus {
	next := *s.hv.Status.DeepCopy()
	generation := s.hv.Generation
	if s.paused() {
		conditions.Set(&next.Conditions, generation, now, conditions.True(v1alpha1.ConditionPaused, v1alpha1.ReasonPaused,
			"nothing is done while the annotation "+v1alpha1.AnnotationPaused+" is \"true\""))
		return next
	}
	meta.RemoveStatusCondition(&next.Conditions, v1alpha1.ConditionPaused)
	if s.usage != nil {
		next.Proxies, next.Allocated = s.usage.proxies, s.usage.amount()
	}
	if s.observed != nil {
		describe(&next, s)
	}
	conditions.Set(&next.Conditions, generation, now, connected(s), storageReady(s), networkReady(s))
	conditions.Set(&next.Conditions, generation, now, ready(s, next.Conditions))
	next.ObservedGeneration = generation
	next.LastSeenTime = lastSeen(s, next)
	return next
}

// describe takes over what the host is; what is not known yet stays as it was.
func describe(next *v1alpha1.HypervisorStatus, s *scope) {
	o := s.observed
	if o.LibvirtVersion != "" {
		next.Versions = &v1alpha1.HypervisorVersions{Libvirt: o.LibvirtVersion, QEMU: o.HypervisorVersion}
	}
	if o.HostUUID != "" {
		next.HostUUID = o.HostUUID
	}
	if o.VirtType != "" {
		next.VirtType = v1alpha1.VirtType(o.VirtType)
	}
	if (o.Capacity != providers.Capacity{}) && s.usage != nil {
		next.Capacity = capacity(o.Capacity)
		next.Allocatable = allocatable(o.Capacity, s.hv.Spec.Overcommit, *s.usage)
	}
	if !o.LastSeen.IsZero() {
		next.ImagesCached = int32(min(o.Images, 1<<30))
	}
}

// lastSeen moves when it is old or when something else is written anyhow.
func lastSeen(s *scope, next v1alpha1.HypervisorStatus) *metav1.Time {
	old := s.before.Status.LastSeenTime
	if s.observed == nil || s.observed.LastSeen.IsZero() {
		return old
	}
	seen := metav1.NewTime(s.observed.LastSeen).Rfc3339Copy()
	if old != nil && seen.Sub(old.Time) < lastSeenEvery && equality.Semantic.DeepEqual(s.before.Status, next) {
		return old
	}
	return &seen
}

func connected(s *scope) metav1.Condition {
	const kind = v1alpha1.ConditionConnected
	switch {
	case s.observed == nil:
		return conditions.False(kind, s.outcome.Result.Reason, s.outcome.Result.Message)
	case s.observed.Connected == nil:
		return conditions.True(kind, v1alpha1.ReasonConnected, "libvirt answers")
	case providers.KindOf(s.observed.Connected) == providers.InProgress:
		return conditions.False(kind, v1alpha1.ReasonConnecting, s.observed.Connected.Error())
	default:
		return conditions.False(kind, providers.OutcomeOf(s.observed.Connected).Reason, s.observed.Connected.Error())
	}
}

func storageReady(s *scope) metav1.Condition {
	what := "pool " + s.hv.Spec.StoragePool + " is active"
	return part(s, v1alpha1.ConditionStorageReady, what, func(o *providers.HostStatus) error { return o.Storage })
}

func networkReady(s *scope) metav1.Condition {
	what := "network " + s.hv.Spec.Network.Name + " is active"
	if bridge := s.hv.Spec.Network.Bridge; bridge != "" {
		what = "bridge " + bridge + " is taken as given: libvirt cannot tell, and the first machine shows"
	}
	return part(s, v1alpha1.ConditionNetworkReady, what, func(o *providers.HostStatus) error { return o.Network })
}

// part is the condition of a pool or network: unknown until the host has answered once.
func part(s *scope, kind, good string, err func(*providers.HostStatus) error) metav1.Condition {
	if s.observed == nil || s.observed.LastSeen.IsZero() {
		return conditions.Unknown(kind, v1alpha1.ReasonPending, "waits for "+v1alpha1.ConditionConnected)
	}
	if err := err(s.observed); err != nil {
		return conditions.False(kind, providers.OutcomeOf(err).Reason, err.Error())
	}
	return conditions.True(kind, v1alpha1.ReasonActive, good)
}

// ready: machines can be made and kept there. A cordon is the user's wish, not a fault: it shows as the reason.
func ready(s *scope, now []metav1.Condition) metav1.Condition {
	const kind = v1alpha1.ConditionReady
	if s.inUse {
		return conditions.False(kind, v1alpha1.ReasonInUse, "it is being deleted and Proxies still live on it: delete them first")
	}
	for _, needed := range []string{v1alpha1.ConditionConnected, v1alpha1.ConditionStorageReady, v1alpha1.ConditionNetworkReady} {
		if c := meta.FindStatusCondition(now, needed); c != nil && c.Status != metav1.ConditionTrue {
			return conditions.False(kind, c.Reason, c.Message)
		}
	}
	if s.hv.Spec.Unschedulable {
		return conditions.True(kind, v1alpha1.ReasonUnschedulable, "the host is fine; spec.unschedulable keeps new Proxies away")
	}
	return conditions.True(kind, v1alpha1.ReasonReady, "Proxies can be placed here")
}
