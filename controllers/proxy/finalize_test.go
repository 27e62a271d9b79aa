package proxy

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

func (w *world) delete() {
	w.t.Helper()
	require.NoError(w.t, w.client.Delete(w.t.Context(), w.get()))
}

func (w *world) gone() bool {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "team", Name: "shop"}, &v1alpha1.Proxy{})
	require.NoError(w.t, client.IgnoreNotFound(err))
	return apierrors.IsNotFound(err)
}

func TestDeleteLeavesNothing(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	w.delete()
	_, err := w.reconcile()
	require.NoError(t, err)
	assert.True(t, w.gone())
	assert.Empty(t, w.machines())
}

func TestDeleteKeepsTheFinalizerWhileItCannotTell(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	w.provider.Faults().HostDown("kvm1", true)
	w.delete()
	p := w.mustReconcile()
	assert.Equal(t, v1alpha1.PhaseDeleting, p.Status.Phase)
	assert.Equal(t, v1alpha1.ReasonHostUnreachable, conditionOf(t, p, v1alpha1.ConditionReady).Reason)
	assert.Empty(t, p.Status.Endpoint)
	version := p.ResourceVersion
	assert.Equal(t, version, w.mustReconcile().ResourceVersion)

	w.provider.Faults().HostDown("kvm1", false)
	_, err := w.reconcile()
	require.NoError(t, err)
	assert.True(t, w.gone())
	assert.Empty(t, w.machines())
}

func TestDeleteOfWhatNeverWasAsksNoHost(t *testing.T) {
	for name, c := range map[string]*v1alpha1.Proxy{
		"never placed":     shop(onHost("kvm9")),
		"invalid document": shop(userData("nonsense")),
		"unknown provider": shop(func(p *v1alpha1.Proxy) { p.Spec.Provider = "nimbus" }),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c, hypervisor("kvm1"))
			w.mustReconcile()
			w.provider.Faults().HostDown("kvm1", true)
			w.delete()
			_, err := w.reconcile()
			require.NoError(t, err)
			assert.True(t, w.gone())
		})
	}
}

func TestDeleteFindsTheMachineOfALostStatus(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	p := w.get()
	p.Status = v1alpha1.ProxyStatus{}
	require.NoError(t, w.client.Status().Update(t.Context(), p))
	w.delete()
	w.provider.Faults().HostDown("kvm1", true)
	w.mustReconcile()
	require.False(t, w.gone(), "the machine may be on the host that does not answer")
	w.provider.Faults().HostDown("kvm1", false)
	_, err := w.reconcile()
	require.NoError(t, err)
	assert.True(t, w.gone())
	assert.Empty(t, w.machines())
}

func TestDeleteAfterACrashBetweenCreateAndStatus(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"), hypervisor("kvm2"))
	w.ready()
	p := w.get()
	p.Status.ProviderID = ""
	require.NoError(t, w.client.Status().Update(t.Context(), p))
	other := map[string]string{"kvm1": "kvm2", "kvm2": "kvm1"}[p.Status.Hypervisor]
	w.provider.Faults().HostDown(other, true)
	w.delete()
	_, err := w.reconcile()
	require.NoError(t, err)
	assert.True(t, w.gone(), "only the host that it was placed on matters")
	assert.Empty(t, w.machines())
}

func TestAbandonGivesUpLoudly(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	w.provider.Faults().HostDown("kvm1", true)
	w.update(func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"} })
	w.delete()
	_, err := w.reconcile()
	require.NoError(t, err)
	assert.True(t, w.gone())
	var last string
	for len(w.recorder.Events) > 0 {
		last = <-w.recorder.Events
	}
	assert.True(t, strings.HasPrefix(last, "Warning "+eventAbandoned), last)
}

func TestAbandonDoesNotLeakTheMachineOfAHostThatIsWell(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	remove := w.provider.Faults().Inject(simulated.Rule{Op: simulated.OpDelete, Err: &providers.Error{Kind: providers.InProgress, Msg: "the guest shuts down"}})
	w.update(func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"} })
	w.delete()
	_, err := w.reconcile()
	require.NoError(t, err)
	assert.False(t, w.gone(), "the stop is under way")
	remove()
	_, err = w.reconcile()
	require.NoError(t, err)
	assert.True(t, w.gone())
	assert.Empty(t, w.machines())
}

func TestDeleteWaitsForAGracefulStop(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.ready()
	remove := w.provider.Faults().Inject(simulated.Rule{Op: simulated.OpDelete, Err: &providers.Error{Kind: providers.InProgress, Msg: "the guest shuts down"}})
	w.delete()
	result, err := w.reconcile()
	require.NoError(t, err)
	assert.Equal(t, pollProgress, result.RequeueAfter)
	c := conditionOf(t, w.get(), v1alpha1.ConditionReady)
	assert.Equal(t, v1alpha1.ReasonDeleting, c.Reason)
	assert.Contains(t, c.Message, "the guest shuts down")
	remove()
	_, err = w.reconcile()
	require.NoError(t, err)
	assert.True(t, w.gone())
}

func TestDeleteOfAForeignMachineTouchesNothing(t *testing.T) {
	w := newWorld(t, shop(), hypervisor("kvm1"))
	w.mustReconcile()
	w.provider.Faults().Inject(simulated.Rule{Op: simulated.OpDelete, Err: &providers.Error{Kind: providers.Exists, Msg: "not ours"}})
	w.delete()
	result, err := w.reconcile()
	require.NoError(t, err)
	assert.Equal(t, recheckStalled, result.RequeueAfter)
	assert.Equal(t, "ForeignObject", conditionOf(t, w.get(), v1alpha1.ConditionReady).Reason)
}

// failing is an API server that cannot be read.
type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the server is too busy")
}

func TestFirstReconcileThatFailsIsNoLostStatus(t *testing.T) {
	w := newWorld(t, shop(func(p *v1alpha1.Proxy) {
		p.Spec.UserData = nil
		p.Spec.UserDataFrom = &v1alpha1.UserDataSource{SecretKeyRef: &v1alpha1.KeyRef{Name: "config", Key: "user-data"}}
	}), hypervisor("kvm1"))
	w.provider.Faults().HostDown("kvm1", true)
	reader := w.r.Reader
	w.r.Reader = failing{reader}
	_, err := w.reconcile()
	require.ErrorContains(t, err, "too busy")
	w.r.Reader = reader
	c := conditionOf(t, w.get(), v1alpha1.ConditionScheduled)
	assert.Contains(t, c.Message, "too busy", "the cause shows")

	w.delete()
	_, err = w.reconcile()
	require.NoError(t, err)
	assert.True(t, w.gone(), "nothing was made, so no host need answer")
}

func TestEmptyUserDataFromASecretIsRefused(t *testing.T) {
	w := newWorld(t, shop(func(p *v1alpha1.Proxy) {
		p.Spec.UserData = nil
		p.Spec.UserDataFrom = &v1alpha1.UserDataSource{SecretKeyRef: &v1alpha1.KeyRef{Name: "config", Key: "user-data"}}
	}), hypervisor("kvm1"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "config"}, Data: map[string][]byte{"user-data": {}}})
	c := conditionOf(t, w.mustReconcile(), v1alpha1.ConditionScheduled)
	assert.Equal(t, v1alpha1.ReasonUserDataInvalid, c.Reason)
}
