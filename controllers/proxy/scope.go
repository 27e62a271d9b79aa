package proxy

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/cloudinit"
	"github.com/proxyard/proxyard/pkg/placement"
	"github.com/proxyard/proxyard/pkg/probe"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// scope is what one reconcile knows of one Proxy. The steps gather facts into it; status.go alone turns them into a status.
type scope struct {
	// before is the object as the API server has it, proxy the one that is worked on. Set by Reconcile; renewed by
	// Reconciler.save when a step stores an identity.
	before, proxy *v1alpha1.Proxy
	// fresh: the finalizer was set in this very reconcile, so nothing can exist outside yet. Set by Reconcile.
	fresh bool
	// provider that makes the machine. Set by identify; nil before and when spec.provider is unknown.
	provider providers.Provider
	// documents for cloud-init, prepared. Set by document; nil while nobody needs them.
	documents *cloudinit.Documents
	// providerID of the machine, from status or from the provider. Set by Reconcile, identify and machine.
	providerID providers.ProviderID
	// machine as its host sees it. Set by machine; nil when nobody could tell or it does not exist.
	machine *providers.Status
	// unsure says why the host could not tell of a machine that had an address before. Set by machine; else nil.
	unsure *steps.Result
	// addresses of the machine, preferred first: the host's, or the last known while unsure. Set by address.
	addresses []v1alpha1.ProxyAddress
	// remade: a machine that was there is gone and is made again, so what is known of its boot is void. Set by machine.
	remade bool
	// report is what the guest says of its first boot. Set by boot; nil when it was not asked now.
	report *providers.BootReport
	// serialTail is the end of the console's log. Set by boot when the boot is overdue; else empty.
	serialTail string
	// overdue: spec.bootDeadline has passed without one good probe. Set by boot.
	overdue bool
	// probe is the latest verdict. Set by probe; nil when the proxy is not probed.
	probe *probe.State
	// outcome is how far the steps came. Set by Reconcile.
	outcome steps.Outcome
}

func newScope(p *v1alpha1.Proxy) *scope {
	return &scope{before: p.DeepCopy(), proxy: p, providerID: providers.ProviderID(p.Status.ProviderID)}
}

func (s *scope) key() string {
	return types.NamespacedName{Namespace: s.proxy.Namespace, Name: s.proxy.Name}.String()
}
func (s *scope) uid() string    { return string(s.proxy.UID) }
func (s *scope) deleting() bool { return !s.proxy.DeletionTimestamp.IsZero() }
func (s *scope) paused() bool   { return s.proxy.Annotations[v1alpha1.AnnotationPaused] == "true" }
func (s *scope) abandoned() bool {
	return s.proxy.Annotations[v1alpha1.AnnotationAbandon] == "true"
}

// statusLost: the object has our finalizer and yet no reconcile ever left a status: it was restored without one, or the
// first write got lost. A machine may exist all the same.
func (s *scope) statusLost() bool {
	return !s.fresh && s.proxy.Status.Hypervisor == "" && s.proxy.Status.ObservedGeneration == 0
}

// served: a probe has succeeded once.
func (s *scope) served() bool {
	old := s.proxy.Status.Probe
	return (old != nil && old.LastSuccessTime != nil) || (s.probe != nil && !s.probe.LastSuccess.IsZero())
}

func (s *scope) tag(clusterID string) providers.Tag {
	return providers.Tag{ClusterID: clusterID, Namespace: s.proxy.Namespace, Name: s.proxy.Name, UID: s.uid()}
}

// wanted is the machine that the spec describes, in the provider's words.
func (s *scope) wanted(clusterID string) providers.Machine {
	spec := &s.proxy.Spec
	return providers.Machine{
		Tag:      s.tag(clusterID),
		Host:     s.proxy.Status.Hypervisor,
		Hostname: hostname(s.proxy.Name),
		Image:    providers.Image{URL: spec.Image.URL, Checksum: spec.Image.Checksum},
		Resources: providers.Resources{
			CPUs: int(spec.Resources.CPU), MemoryBytes: spec.Resources.Memory.Value(), DiskBytes: spec.Resources.Disk.Value(),
		},
		Firmware:      providers.Firmware(spec.Firmware),
		NoGuestAgent:  spec.GuestAgent == v1alpha1.GuestAgentNone,
		UserData:      s.documents.UserData,
		VendorData:    s.documents.VendorData,
		NetworkConfig: s.documents.NetworkConfig,
	}
}

// hostname makes a DNS label of an object's name, which may be longer and have dots.
func hostname(name string) string {
	name = strings.ReplaceAll(name, ".", "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// condition returns the condition that the status had before this reconcile, or nil.
func (s *scope) condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(s.before.Status.Conditions, kind)
}

// placementRequest is what the spec asks of a hypervisor.
//
// It fails for a selector that is malformed.
func placementRequest(spec *v1alpha1.ProxySpec) (placement.Request, error) {
	req := placement.Request{Needs: needs(spec)}
	if spec.Placement == nil {
		return req, nil
	}
	req.Node = spec.Placement.Hypervisor
	if sel := spec.Placement.HypervisorSelector; sel != nil {
		selector, err := metav1.LabelSelectorAsSelector(sel)
		if err != nil {
			return req, fmt.Errorf("placement.hypervisorSelector: %w", err)
		}
		req.Selector = selector
	}
	return req, nil
}

func needs(spec *v1alpha1.ProxySpec) placement.Resources {
	return placement.Resources{
		CPU: int64(spec.Resources.CPU), Memory: spec.Resources.Memory.Value(), Storage: spec.Resources.Disk.Value(),
	}
}

// node is a hypervisor as placement sees it, without what is allocated.
func node(hv *v1alpha1.Hypervisor) placement.Node {
	n := placement.Node{Name: hv.Name, Labels: labels.Set(hv.Labels), Unschedulable: hv.Spec.Unschedulable, NotReady: notReady(hv)}
	if a := hv.Status.Allocatable; a != nil {
		n.Allocatable = placement.Resources{CPU: int64(a.CPU), Memory: a.Memory.Value(), Storage: a.Storage.Value()}
	}
	return n
}

// target is what the prober shall ask.
func (s *scope) target(probeURL, user, password string) probe.Target {
	h := &s.proxy.Spec.Health
	t := probe.Target{
		Identity: s.uid(), Address: s.endpoint(), URL: h.URL, ExpectedStatus: int(h.ExpectedStatus),
		Username: user, Password: password, Interval: h.Interval.Duration, Timeout: h.Timeout.Duration,
		FailureThreshold: int(h.FailureThreshold), SuccessThreshold: int(h.SuccessThreshold),
	}
	if t.URL == "" {
		t.URL = probeURL
	}
	return t
}

// endpoint is host:port of the preferred address, empty while none is known.
func (s *scope) endpoint() string {
	if len(s.addresses) == 0 {
		return ""
	}
	return net.JoinHostPort(s.addresses[0].IP, strconv.Itoa(int(s.proxy.Spec.Port)))
}

// bootEnds is when spec.bootDeadline ends; ok is false while the machine does not run.
func (s *scope) bootEnds() (end time.Time, ok bool) {
	c := s.condition(v1alpha1.ConditionProvisioned)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Add(s.proxy.Spec.BootDeadline.Duration), true
}
