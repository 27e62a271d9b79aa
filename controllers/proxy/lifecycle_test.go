package proxy

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/probe"
	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

func TestProxyBecomesReadyAndQuiet(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	p := w.ready()
	assert.Equal(t, "kvm1", p.Status.Hypervisor)
	assert.Equal(t, int64(1), p.Status.ObservedGeneration)
	assert.Contains(t, p.Finalizers, v1alpha1.ProxyFinalizer)
	assert.Equal(t, p.Status.Addresses[0].IP+":3128", p.Status.Endpoint)
	assert.Equal(t, string(w.machines()[0].ID), p.Status.ProviderID)
	assert.Equal(t, string(providers.CloudInitDone), p.Status.Boot.CloudInit)

	version := p.ResourceVersion
	for range 5 {
		w.now = w.now.Add(30 * time.Second)
		p = w.mustReconcile()
	}
	assert.Equal(t, version, p.ResourceVersion, "nothing changed, so nothing may be written")
}

func TestProbeFiguresAreWrittenRarely(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	before := w.writes
	w.now = w.now.Add(probeWriteEvery + time.Second)
	require.Eventually(t, func() bool { w.mustReconcile(); return w.writes > before }, 5*time.Second, time.Millisecond)
	assert.Equal(t, before+1, w.writes)
}

func TestUnhealthyProxyLosesItsEndpointAndKeepsItsMachine(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	w.probes(probe.UpstreamUnreachable, "the proxy cannot reach the target (503)")
	p := w.awaitVerdict()
	assert.Equal(t, v1alpha1.PhaseUnhealthy, p.Status.Phase)
	assert.Empty(t, p.Status.Endpoint)
	assert.Equal(t, v1alpha1.ReasonUpstreamUnreachable, conditionOf(t, p, v1alpha1.ConditionReady).Reason)
	assert.Len(t, w.machines(), 1)

	w.probes(probe.Success, "")
	p = w.awaitVerdict()
	assert.Equal(t, v1alpha1.PhaseReady, p.Status.Phase)
	assert.NotEmpty(t, p.Status.Endpoint)
}

func TestBrokenProbeTargetCondemnsNobody(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	w.mu.Lock()
	w.control = probe.Observation{Class: probe.Timeout}
	w.mu.Unlock()
	w.probes(probe.UpstreamUnreachable, "")
	p := w.awaitVerdict()
	c := conditionOf(t, p, v1alpha1.ConditionHealthy)
	assert.Equal(t, metav1.ConditionTrue, c.Status)
	assert.Equal(t, v1alpha1.ReasonProbeTargetUnavailable, c.Reason)
	assert.Equal(t, v1alpha1.PhaseReady, p.Status.Phase)
}

func TestVerdictOutlivesTheManager(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	version := w.ready().ResourceVersion
	w.restart()
	assert.Equal(t, version, w.mustReconcile().ResourceVersion, "a restart must not make a serving proxy unready")
}

func TestSilentHostDoesNotTakeAServingProxyDown(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	endpoint := w.ready().Status.Endpoint
	w.provider.Faults().HostDown("kvm1", true)
	p := w.mustReconcile()
	assert.Equal(t, endpoint, p.Status.Endpoint)
	c := conditionOf(t, p, v1alpha1.ConditionProvisioned)
	assert.Equal(t, metav1.ConditionUnknown, c.Status)
	assert.Equal(t, v1alpha1.ReasonHostUnreachable, c.Reason)

	w.probes(probe.ProxyUnreachable, "cannot connect to the proxy: no answer in time")
	p = w.awaitVerdict()
	assert.Equal(t, v1alpha1.PhaseUnknown, p.Status.Phase)
	assert.Empty(t, p.Status.Endpoint)
}

func TestStoppedMachineIsNotReadyAndIsStartedAgain(t *testing.T) {
	for name, stop := range map[string]func(*simulated.Faults, providers.ProviderID) error{
		"powered off by the guest": (*simulated.Faults).Stop,
		"crashed":                  (*simulated.Faults).Crash,
		"gone":                     (*simulated.Faults).Vanish,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shop(), hypervisor("kvm1"))
			id := providers.ProviderID(w.ready().Status.ProviderID)
			require.NoError(t, stop(w.provider.Faults(), id))
			p := w.mustReconcile()
			assert.NotEqual(t, v1alpha1.PhaseReady, p.Status.Phase, "what was interrupted must show")
			assert.Empty(t, p.Status.Endpoint)
			w.mustReconcile()
			p = w.awaitVerdict()
			assert.Equal(t, v1alpha1.PhaseReady, p.Status.Phase)
			assert.Equal(t, string(id), p.Status.ProviderID, "the same machine, not another")
			assert.Len(t, w.machines(), 1)
		})
	}
}

func TestPausedMachineIsLeftToItsAdministrator(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	id := providers.ProviderID(w.ready().Status.ProviderID)
	require.NoError(t, w.provider.Faults().Pause(id))
	p := w.mustReconcile()
	assert.Equal(t, v1alpha1.PhaseStopped, p.Status.Phase)
	assert.Equal(t, v1alpha1.ReasonMachinePaused, conditionOf(t, p, v1alpha1.ConditionReady).Reason)
}

func TestAddressIsFollowed(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	p := w.ready()
	old := p.Status.Endpoint
	require.NoError(t, w.provider.Faults().MoveAddress(providers.ProviderID(p.Status.ProviderID)))
	w.mustReconcile()
	p = w.awaitVerdict()
	assert.NotEqual(t, old, p.Status.Endpoint)
	assert.Equal(t, v1alpha1.PhaseReady, p.Status.Phase)
}

func TestLostStatusIsAdoptedNotDoubled(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"), hypervisor("kvm2"))
	before := w.ready().Status
	p := w.get()
	p.Status = v1alpha1.ProxyStatus{}
	require.NoError(t, w.client.Status().Update(t.Context(), p))

	w.provider.Faults().HostDown(before.Hypervisor, true)
	p = w.mustReconcile()
	assert.Equal(t, v1alpha1.ReasonHostsUnanswered, conditionOf(t, p, v1alpha1.ConditionScheduled).Reason)
	assert.Empty(t, p.Status.Hypervisor)
	assert.Zero(t, p.Status.ObservedGeneration, "it must still read as lost at the next try")
	assert.Equal(t, v1alpha1.ReasonHostsUnanswered, conditionOf(t, w.mustReconcile(), v1alpha1.ConditionScheduled).Reason)

	w.provider.Faults().HostDown(before.Hypervisor, false)
	p = w.mustReconcile()
	assert.Equal(t, before.Hypervisor, p.Status.Hypervisor)
	assert.Equal(t, before.ProviderID, p.Status.ProviderID)
	assert.Len(t, w.machines(), 1)
}

func TestHostThatWasNotHandedOverYetIsNotEmpty(t *testing.T) {
	w := newWorld(t, shop(func(p *v1alpha1.Proxy) { p.Finalizers = []string{v1alpha1.ProxyFinalizer} }), hypervisor("kvm1"))
	require.NoError(t, w.provider.RemoveHost(t.Context(), "kvm1"))
	p := w.mustReconcile()
	assert.Equal(t, v1alpha1.ReasonHostsUnanswered, conditionOf(t, p, v1alpha1.ConditionScheduled).Reason)
}

func TestDowntimeDoesNotMoveObservedGeneration(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	w.provider.Faults().Inject(simulated.Rule{Op: simulated.OpGet, Err: &providers.Error{Kind: providers.Internal, Err: errors.New("boom")}})
	p := w.mustReconcile()
	assert.Equal(t, int64(1), p.Status.ObservedGeneration)
}

func TestPausedAnnotationStopsEverything(t *testing.T) {
	w := newWorld(t, shop(func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"} }), hypervisor("kvm1"))
	p := w.mustReconcile()
	assert.Equal(t, metav1.ConditionTrue, conditionOf(t, p, v1alpha1.ConditionPaused).Status)
	assert.Empty(t, p.Finalizers)
	assert.Empty(t, w.machines())

	w.update(func(p *v1alpha1.Proxy) { p.Annotations = nil })
	p = w.ready()
	assert.Len(t, p.Status.Conditions, 6, "no trace of the pause is left")
}

func TestBootDeadlineSaysHowFarItCame(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.probes(probe.ProxyUnreachable, "cannot connect to the proxy: connection refused")
	p := w.mustReconcile()
	id := providers.ProviderID(p.Status.ProviderID)
	require.NoError(t, w.provider.Faults().Console(id, "\x1b[0mReached target\x00 cloud-init.\nE: Unable to locate package squidd\n"))
	p = w.awaitVerdict()
	assert.Equal(t, v1alpha1.PhaseProvisioning, p.Status.Phase)
	w.now = w.now.Add(16 * time.Minute)
	p = w.mustReconcile()
	c := conditionOf(t, p, v1alpha1.ConditionReady)
	assert.Equal(t, v1alpha1.ReasonBootDeadlineExceeded, c.Reason)
	assert.Contains(t, c.Message, "connection refused")
	assert.Contains(t, c.Message, "did not serve within 15m0s")
	assert.Contains(t, p.Status.Boot.SerialTail, "Unable to locate package squidd")
	assert.NotContains(t, p.Status.Boot.SerialTail, "\x1b")
	assert.Equal(t, v1alpha1.PhaseUnhealthy, p.Status.Phase)
}

func TestCloudInitErrorIsNotReady(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	for name, c := range map[string]struct {
		report providers.BootReport
		phase  v1alpha1.ProxyPhase
		reason string
	}{
		"error":    {providers.BootReport{CloudInit: providers.CloudInitError, Errors: []string{"runcmd failed"}}, v1alpha1.PhaseFailed, v1alpha1.ReasonCloudInitError},
		"degraded": {providers.BootReport{CloudInit: providers.CloudInitDegraded}, v1alpha1.PhaseReady, v1alpha1.ReasonCloudInitDegraded},
		"unknown":  {providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: "GuestExecForbidden"}, v1alpha1.PhaseReady, "GuestExecForbidden"},
		"running":  {providers.BootReport{CloudInit: providers.CloudInitRunning}, v1alpha1.PhaseReady, v1alpha1.ReasonCloudInitRunning},
	} {
		t.Run(name, func(t *testing.T) {
			w = newWorld(t, shop(), hypervisor("kvm1"))
			w.probes(probe.ProxyUnreachable, "")
			p := w.mustReconcile()
			require.NoError(t, w.provider.Faults().Boot(providers.ProviderID(p.Status.ProviderID), c.report))
			p.Status.Boot = nil
			require.NoError(t, w.client.Status().Update(t.Context(), p))
			w.now = w.now.Add(time.Minute)
			w.probes(probe.Success, "")
			w.awaitVerdict()
			p = w.mustReconcile()
			for p.Status.Phase == v1alpha1.PhaseProvisioning { // the first news was of the failing probe
				p = w.awaitVerdict()
			}
			assert.Equal(t, c.phase, p.Status.Phase)
			assert.Equal(t, c.reason, conditionOf(t, p, v1alpha1.ConditionBooted).Reason)
		})
	}
}
