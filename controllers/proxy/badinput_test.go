package proxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

func userData(text string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Spec.UserData = &text }
}

func fromSecret(p *v1alpha1.Proxy) {
	p.Spec.UserData = nil
	p.Spec.UserDataFrom = &v1alpha1.UserDataSource{SecretKeyRef: &v1alpha1.KeyRef{Name: "config", Key: "user-data"}}
}

func rendered(p *v1alpha1.Proxy) {
	p.Spec.UserData = nil
	p.Spec.Access = &v1alpha1.ProxyAccess{AllowedClients: []string{"10.0.0.0/8"}}
}

func onHost(name string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.ProxyPlacement{Hypervisor: name} }
}

func TestBadInputSaysWhyAndMakesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		proxy      *v1alpha1.Proxy
		hypervisor *v1alpha1.Hypervisor
		fault      func(*simulated.Faults)
		condition  string
		reason     string
		message    string
		phase      v1alpha1.ProxyPhase
		placed     bool
	}{
		"unknown provider": {
			proxy:     shop(func(p *v1alpha1.Proxy) { p.Spec.Provider = "nimbus" }),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonUnknownProvider, message: "this manager has simulated", phase: v1alpha1.PhaseFailed,
		},
		"unknown hypervisor": {
			proxy:     shop(onHost("kvm9")),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonHypervisorNotFound, message: `"kvm9" does not exist`, phase: v1alpha1.PhasePending,
		},
		"unready hypervisor": {
			proxy: shop(onHost("kvm1")),
			hypervisor: hypervisor("kvm1", func(hv *v1alpha1.Hypervisor) {
				hv.Status.Conditions[0].Status, hv.Status.Conditions[0].Reason = metav1.ConditionFalse, "HostKeyUnknown"
			}),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonHypervisorNotReady, message: "HostKeyUnknown", phase: v1alpha1.PhasePending,
		},
		"no room": {
			proxy:     shop(func(p *v1alpha1.Proxy) { p.Spec.Resources.CPU = 64 }),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonNoFit, message: "CPUs: 64 wanted, 8 free", phase: v1alpha1.PhasePending,
		},
		"user-data without header": {
			proxy:     shop(userData("packages: [squid]\n")),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonUserDataInvalid, message: "line 1", phase: v1alpha1.PhaseFailed,
		},
		"user-data that is no mapping": {
			proxy:     shop(userData("#cloud-config\n- squid\n")),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonUserDataInvalid, message: "userData", phase: v1alpha1.PhaseFailed,
		},
		"packages that are no list": {
			proxy:     shop(userData("#cloud-config\npackages: squid\n")),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonUserDataInvalid, message: "packages", phase: v1alpha1.PhaseFailed,
		},
		"vendor-data that is ignored": {
			proxy: shop(func(p *v1alpha1.Proxy) {
				text := "\ufeff#cloud-config\n{}\n"
				p.Spec.VendorData = &text
			}),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonVendorDataInvalid, message: "vendorData", phase: v1alpha1.PhaseFailed,
		},
		"network-config that is none": {
			proxy: shop(func(p *v1alpha1.Proxy) {
				text := "version: 7\n"
				p.Spec.NetworkConfig = &text
			}),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonNetworkConfigInvalid, message: "networkConfig", phase: v1alpha1.PhaseFailed,
		},
		"missing secret": {
			proxy:     shop(fromSecret),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonSecretNotFound, message: `secret "config" does not exist in namespace "team"`, phase: v1alpha1.PhasePending,
		},
		"missing config map": {
			proxy: shop(func(p *v1alpha1.Proxy) {
				p.Spec.UserData = nil
				p.Spec.UserDataFrom = &v1alpha1.UserDataSource{ConfigMapKeyRef: &v1alpha1.KeyRef{Name: "config", Key: "user-data"}}
			}),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonConfigMapNotFound, message: `configmap "config"`, phase: v1alpha1.PhasePending,
		},
		"an open proxy": {
			proxy: shop(rendered, func(p *v1alpha1.Proxy) {
				p.Spec.Access.AllowedClients = []string{"0.0.0.0/0"}
			}),
			condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonAccessInvalid, message: "allowedClients", phase: v1alpha1.PhaseFailed,
		},
		"image not found": {
			proxy: shop(), fault: func(f *simulated.Faults) { f.Image(imageURL, 0, simulated.ErrImageNotFound) },
			condition: v1alpha1.ConditionProvisioned, reason: "ImageNotFound", message: "", phase: v1alpha1.PhaseFailed, placed: true,
		},
		"image larger than the disk": {
			proxy: shop(), fault: func(f *simulated.Faults) { f.Image(imageURL, 1<<40, nil) },
			condition: v1alpha1.ConditionProvisioned, reason: "DiskTooSmall", message: "", phase: v1alpha1.PhaseFailed, placed: true,
		},
		"full pool": {
			proxy: shop(), fault: func(f *simulated.Faults) { f.HostFull("kvm1", true) },
			condition: v1alpha1.ConditionProvisioned, reason: "PoolFull", message: "full", phase: v1alpha1.PhaseProvisioning, placed: true,
		},
		"credentials refused": {
			proxy: shop(), fault: func(f *simulated.Faults) { f.HostDenied("kvm1", true) },
			condition: v1alpha1.ConditionProvisioned, reason: "Denied", message: "", phase: v1alpha1.PhaseProvisioning, placed: true,
		},
		"foreign machine of the same name": {
			proxy: shop(), fault: func(f *simulated.Faults) {
				f.PlantForeign(providers.Machine{Tag: providers.Tag{ClusterID: cluster, UID: string(shop().UID)}, Host: "kvm1"}, simulated.SameName)
			},
			condition: v1alpha1.ConditionProvisioned, reason: "ForeignObject", message: "not ours", phase: v1alpha1.PhaseFailed, placed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.hypervisor == nil {
				c.hypervisor = hypervisor("kvm1")
			}
			w := newWorld(t, c.proxy, c.hypervisor)
			if c.fault != nil {
				c.fault(w.provider.Faults())
			}
			result, err := w.reconcile()
			require.NoError(t, err)
			p := w.get()
			got := conditionOf(t, p, c.condition)
			assert.Equal(t, c.reason, got.Reason)
			assert.Equal(t, metav1.ConditionFalse, got.Status)
			assert.Contains(t, got.Message, c.message)
			assert.Equal(t, c.phase, p.Status.Phase)
			assert.Equal(t, c.placed, p.Status.Hypervisor != "", "nothing is reserved for a Proxy that can never boot")
			assert.Equal(t, c.reason, conditionOf(t, p, v1alpha1.ConditionReady).Reason)
			assert.Empty(t, w.machines(), "nothing half made")
			if c.phase == v1alpha1.PhaseFailed {
				assert.True(t, result.RequeueAfter == 0 || result.RequeueAfter == recheckStalled, "a permanent error is not retried soon: %s", result.RequeueAfter)
			}
			version := p.ResourceVersion
			assert.Equal(t, version, w.mustReconcile().ResourceVersion, "the same again writes nothing")
		})
	}
}

func TestMissingSecretRecoversWhenItAppears(t *testing.T) {
	w := newWorld(t, shop(fromSecret), hypervisor("kvm1"))
	result, err := w.reconcile()
	require.NoError(t, err)
	assert.Equal(t, pollReference, result.RequeueAfter, "no Secret is watched, so it must be polled for")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "config"}}
	require.NoError(t, w.client.Create(t.Context(), secret))
	assert.Contains(t, conditionOf(t, w.mustReconcile(), v1alpha1.ConditionScheduled).Message, `has no key "user-data"`)
	secret.Data = map[string][]byte{"user-data": []byte("#cloud-config\n{}\n")}
	require.NoError(t, w.client.Update(t.Context(), secret))
	w.ready()
}

func TestRunningProxyOutlivesItsSecret(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "config"}, Data: map[string][]byte{"user-data": []byte("#cloud-config\n{}\n")},
	}
	w := newWorld(t, shop(fromSecret), hypervisor("kvm1"), secret)
	w.ready()
	require.NoError(t, w.client.Delete(t.Context(), secret))
	assert.Equal(t, v1alpha1.PhaseReady, w.mustReconcile().Status.Phase)
}

func TestPermanentErrorIsNotRetriedByEvents(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	creates := 0
	w.provider.Faults().Inject(simulated.Rule{Op: simulated.OpCreate, Step: simulated.StepImage, Do: func() { creates++ }})
	w.provider.Faults().Image(imageURL, 0, simulated.ErrImageNotFound)
	for range 20 {
		w.mustReconcile() // as after 20 events of the host
	}
	assert.Equal(t, 1, creates)
	w.now = w.now.Add(recheckStalled)
	w.mustReconcile()
	assert.Equal(t, 2, creates, "what may be mended outside of the spec is looked at again, slowly")
	w.update(func(p *v1alpha1.Proxy) { p.Generation++ })
	w.mustReconcile()
	assert.Equal(t, 3, creates, "another spec is tried at once")
}

func TestTransientErrorBacksOff(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.provider.Faults().HostFull("kvm1", true)
	var waits []time.Duration
	for range 5 {
		result, err := w.reconcile()
		require.NoError(t, err)
		waits = append(waits, result.RequeueAfter)
		w.now = w.now.Add(result.RequeueAfter)
	}
	s := time.Second
	assert.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s}, waits)
	w.provider.Faults().HostFull("kvm1", false)
	w.ready()
}

func TestProvisioningSaysWhatItWaitsFor(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.provider.Faults().ImageTime(imageURL, time.Hour)
	p := w.mustReconcile()
	c := conditionOf(t, p, v1alpha1.ConditionProvisioned)
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.NotEmpty(t, c.Message)
	assert.Equal(t, v1alpha1.PhaseProvisioning, p.Status.Phase)
	assert.NotEmpty(t, p.Status.ProviderID, "an identity is known before the machine is")
}
