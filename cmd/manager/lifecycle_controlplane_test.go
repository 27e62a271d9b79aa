//go:build controlplane

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

// wait is how long the test waits for anything.
const wait = 30 * time.Second

// startManager runs the manager with the shipped account over a simulated provider until the test ends.
func startManager(t *testing.T, probeURL string) *simulated.Provider {
	t.Helper()
	provider := simulated.New(simulated.Options{ClusterID: "controlplane-test"})
	o, err := parseFlags([]string{
		"--cluster-id=controlplane-test", "--namespace=" + defaultNamespace, "--probe-url=" + probeURL, "--leader-elect",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--graceful-stop-timeout=5s",
	}, func(string) string { return "" })
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx, shared.account, o, log.Log, provider) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended, "a graceful stop is no error")
		provider.Close()
	})
	return provider
}

func eventually(t *testing.T, holds func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, holds, wait, 100*time.Millisecond)
}

func TestLifeCycle(t *testing.T) {
	ns := namespaced(t, "life")
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(target.Close)
	provider := startManager(t, target.URL+"/generate_204")
	ctx, c := t.Context(), shared.admin

	hv := &v1alpha1.Hypervisor{}
	hv.Name = "sim1"
	hv.Spec.URI = "qemu+tcp://sim1/system"
	hv.Spec.Network.Name = "default"
	require.NoError(t, c.Create(ctx, hv))
	eventually(t, func(t *assert.CollectT) {
		assert.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(hv), hv))
		assert.True(t, meta.IsStatusConditionTrue(hv.Status.Conditions, v1alpha1.ConditionReady), "%+v", hv.Status.Conditions)
	})

	userData := "#cloud-config\npackages: [squid]\n"
	px := &v1alpha1.Proxy{}
	px.Namespace, px.Name = ns, "shop"
	px.Spec = v1alpha1.ProxySpec{
		Provider: simulated.DefaultName, UserData: &userData,
		Image: v1alpha1.ProxyImage{URL: "http://images.example/debian.qcow2", Checksum: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
	}
	// Bare defaults, as kubectl would leave them to the API server; durations have no omitempty of their own.
	px.Spec.Health = v1alpha1.ProxyHealth{Interval: metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: time.Second}}
	px.Spec.BootDeadline = metav1.Duration{Duration: 15 * time.Minute}
	px.Spec.Resources = v1alpha1.ProxyResources{CPU: 1, Memory: *resourceOf("512Mi"), Disk: *resourceOf("8Gi")}
	require.NoError(t, c.Create(ctx, px))
	ready := func(t *assert.CollectT) {
		assert.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(px), px))
		assert.True(t, meta.IsStatusConditionTrue(px.Status.Conditions, v1alpha1.ConditionReady), "%+v", px.Status.Conditions)
		assert.NotEmpty(t, px.Status.Endpoint)
	}
	eventually(t, ready)
	eventually(t, func(t *assert.CollectT) {
		assert.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(hv), hv))
		assert.Equal(t, int32(1), hv.Status.Proxies)
	})

	t.Run("nothing is written while nothing changes", func(t *testing.T) {
		quiet(t, provider, hv, px)
	})

	t.Run("a machine that stops is not ready, and is started again", func(t *testing.T) {
		was := px.ResourceVersion
		require.NoError(t, provider.Faults().Stop(providers.ProviderID(px.Status.ProviderID)))
		eventually(t, func(t *assert.CollectT) {
			ready(t)
			assert.NotEqual(t, was, px.ResourceVersion)
		})
	})

	t.Run("a hypervisor in use stays", func(t *testing.T) {
		require.NoError(t, c.Delete(ctx, hv))
		eventually(t, func(t *assert.CollectT) {
			assert.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(hv), hv))
			assert.Equal(t, v1alpha1.ReasonInUse, meta.FindStatusCondition(hv.Status.Conditions, v1alpha1.ConditionReady).Reason)
		})
	})

	t.Run("delete leaves nothing", func(t *testing.T) {
		require.NoError(t, c.Delete(ctx, px))
		eventually(t, func(t *assert.CollectT) {
			assert.True(t, apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(px), px)))
			assert.True(t, apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(hv), hv)))
		})
		listing, err := provider.ListByTag(ctx, providers.Tag{ClusterID: "controlplane-test"})
		require.NoError(t, err)
		assert.Empty(t, listing.Machines)
	})

	t.Run("events were written", func(t *testing.T) {
		eventually(t, func(t *assert.CollectT) {
			var all eventsv1.EventList
			assert.NoError(t, c.List(ctx, &all, client.InNamespace(ns)))
			reasons := map[string]bool{}
			for i := range all.Items {
				reasons[all.Items[i].Reason] = true
			}
			for _, want := range []string{v1alpha1.ReasonScheduled, v1alpha1.ReasonProvisioned, v1alpha1.ReasonReady, v1alpha1.ReasonMachineStopped} {
				assert.Contains(t, reasons, want)
			}
		})
	})

	t.Run("the lease is in the operator's namespace", func(t *testing.T) {
		require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: defaultNamespace, Name: leaseName}, &coordinationv1.Lease{}))
	})
}

// quiet has both objects reconciled ten times over and compares their resourceVersions, after the writes that are still on
// their way have arrived.
func quiet(t *testing.T, provider *simulated.Provider, hv *v1alpha1.Hypervisor, px *v1alpha1.Proxy) {
	t.Helper()
	reconciled := make(chan struct{}, 1000)
	remove := provider.Faults().Inject(simulated.Rule{Op: simulated.OpGet, Do: func() { reconciled <- struct{}{} }})
	defer remove()
	versions := func() (all []string) {
		for _, o := range []client.Object{hv, px} {
			require.NoError(t, shared.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o))
			all = append(all, o.GetResourceVersion())
		}
		return all
	}
	var before, after []string
	for range 5 {
		before = versions()
		for range 10 {
			provider.Faults().HostSlow("sim1", 0) // an event of the host that changes nothing
			select {
			case <-reconciled:
			case <-time.After(wait):
				require.FailNow(t, "no reconcile")
			}
		}
		if after = versions(); slices.Equal(before, after) {
			return
		}
	}
	assert.Equal(t, before, after, "Hypervisor and Proxy are written although nothing changes")
}

func TestAccountCanDoNoMore(t *testing.T) {
	namespaced(t, "secrets")
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = "secrets", "one"
	require.NoError(t, shared.admin.Create(t.Context(), secret))
	account, err := client.NewWithWatch(shared.account, client.Options{Scheme: newScheme()})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, account.Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{}))
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "secrets", "pod"
	for name, act := range map[string]func() error{
		"list secrets":           func() error { return account.List(ctx, &corev1.SecretList{}) },
		"list its own secrets":   func() error { return account.List(ctx, &corev1.SecretList{}, client.InNamespace(defaultNamespace)) },
		"watch secrets":          func() error { _, err := account.Watch(ctx, &corev1.SecretList{}); return err },
		"change a secret":        func() error { return account.Update(ctx, secret.DeepCopy()) },
		"delete a secret":        func() error { return account.Delete(ctx, secret.DeepCopy()) },
		"list config maps":       func() error { return account.List(ctx, &corev1.ConfigMapList{}) },
		"create a pod":           func() error { return account.Create(ctx, pod) },
		"read another namespace": func() error { return account.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}) },
		"create a proxy": func() error {
			return account.Create(ctx, &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "secrets", Name: "x"}})
		},
		"delete a hypervisor": func() error {
			return account.Delete(ctx, &v1alpha1.Hypervisor{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
		},
		"lease elsewhere": func() error {
			return account.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "secrets", Name: "x"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := act()
			assert.True(t, apierrors.IsForbidden(err), "%v", err)
		})
	}
}

func TestClusterIDIsReadableWithTheShippedAccount(t *testing.T) {
	eventually(t, func(c *assert.CollectT) {
		id, err := clusterID(t.Context(), shared.account)
		assert.NoError(c, err)
		assert.NotEmpty(c, id)
	})
}

func resourceOf(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}
