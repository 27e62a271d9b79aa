package proxy

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/index"
	"github.com/proxyard/proxyard/pkg/probe"
	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

const (
	cluster  = "test-cluster"
	checksum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	imageURL = "http://images.example/debian.qcow2"
)

// world is one reconciler with everything around it in memory: a clock that only the test moves, a simulated provider, and
// a prober whose verdict the test sets.
type world struct {
	t        *testing.T
	client   client.Client
	provider *simulated.Provider
	recorder *events.FakeRecorder
	r        *Reconciler

	mu      sync.Mutex
	now     time.Time
	writes  int
	answer  probe.Observation
	control probe.Observation
	probed  chan string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), recorder: events.NewFakeRecorder(1000),
		answer: probe.Observation{Class: probe.Success}, control: probe.Observation{Class: probe.Success}, probed: make(chan string, 100),
	}
	w.provider = simulated.New(simulated.Options{ClusterID: cluster})
	t.Cleanup(w.provider.Close)
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Proxy{}, &v1alpha1.Hypervisor{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				w.writes++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		})
	for field, fn := range index.Functions() {
		b = b.WithIndex(&v1alpha1.Proxy{}, field, fn)
	}
	w.client = b.Build()
	w.restart()
	for _, o := range objects {
		if hv, ok := o.(*v1alpha1.Hypervisor); ok {
			w.connect(hv.Name)
		}
	}
	return w
}

// restart replaces the reconciler, as a new manager would: all that is in memory is gone.
func (w *world) restart() {
	registry, err := providers.NewRegistry(w.provider)
	require.NoError(w.t, err)
	w.r = New(Options{
		Client: w.client, Reader: w.client, Recorder: w.recorder, Providers: registry, ClusterID: cluster,
		ProbeURL: "http://probe.example/generate_204", Now: func() time.Time { return w.now },
	})
	w.r.prober = probe.NewProber(probe.Options{
		Concurrency: 1, Changed: func(key string) { w.probed <- key },
		Request: func(context.Context, probe.Target) probe.Observation { return w.observation(&w.answer) },
		Control: func(context.Context, probe.Target) probe.Observation { return w.observation(&w.control) },
		Rand:    func() float64 { return 0 },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.r.prober.Start(ctx)
	}()
	w.t.Cleanup(func() { stop(); <-ended })
}

func (w *world) observation(o *probe.Observation) probe.Observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := *o
	out.At = w.now
	return out
}

func (w *world) probes(class probe.Class, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = probe.Observation{Class: class, Message: message, Latency: 12 * time.Millisecond}
}

func (w *world) connect(name string) {
	require.NoError(w.t, w.provider.SetHost(w.t.Context(), providers.Host{Name: name, URI: "sim://" + name}))
}

// reconcile runs once for the Proxy "shop" and returns what came of it.
func (w *world) reconcile() (ctrl.Result, error) {
	return w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "shop"}})
}

func (w *world) mustReconcile() *v1alpha1.Proxy {
	w.t.Helper()
	_, err := w.reconcile()
	require.NoError(w.t, err)
	return w.get()
}

func (w *world) get() *v1alpha1.Proxy {
	w.t.Helper()
	p := &v1alpha1.Proxy{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "team", Name: "shop"}, p))
	return p
}

// awaitVerdict blocks until the prober has a news, and reconciles.
func (w *world) awaitVerdict() *v1alpha1.Proxy {
	w.t.Helper()
	select {
	case key := <-w.probed:
		require.Equal(w.t, "team/shop", key)
	case <-time.After(10 * time.Second):
		require.FailNow(w.t, "the prober gave no verdict")
	}
	return w.mustReconcile()
}

// ready brings the Proxy up.
func (w *world) ready() *v1alpha1.Proxy {
	w.t.Helper()
	w.mustReconcile()
	p := w.awaitVerdict()
	require.Equal(w.t, v1alpha1.PhaseReady, p.Status.Phase, "%+v", p.Status)
	return p
}

func (w *world) update(change func(*v1alpha1.Proxy)) {
	w.t.Helper()
	p := w.get()
	change(p)
	require.NoError(w.t, w.client.Update(w.t.Context(), p))
}

func (w *world) machines() []providers.Status {
	w.t.Helper()
	listing, err := w.provider.ListByTag(w.t.Context(), providers.Tag{ClusterID: cluster})
	require.NoError(w.t, err)
	return listing.Machines
}

func conditionOf(t *testing.T, p *v1alpha1.Proxy, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	require.NotNil(t, c, "condition %s of %+v", kind, p.Status)
	return *c
}

// shop is a Proxy as the API server would have defaulted it.
func shop(changes ...func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
	userData := "#cloud-config\npackages: [squid]\n"
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", UID: "6a5e8a2e-0000-4000-8000-000000000001", Generation: 1},
		Spec: v1alpha1.ProxySpec{
			Provider: simulated.DefaultName,
			Image:    v1alpha1.ProxyImage{URL: imageURL, Checksum: checksum},
			Resources: v1alpha1.ProxyResources{
				CPU: 1, Memory: resource.MustParse("512Mi"), Disk: resource.MustParse("8Gi"),
			},
			Port: 3128, UserData: &userData, GuestAgent: v1alpha1.GuestAgentInstall, Firmware: v1alpha1.FirmwareBIOS,
			Health: v1alpha1.ProxyHealth{
				ExpectedStatus: 204, Interval: metav1.Duration{Duration: 10 * time.Millisecond}, Timeout: metav1.Duration{Duration: time.Second},
				FailureThreshold: 3, SuccessThreshold: 1,
			},
			BootDeadline: metav1.Duration{Duration: 15 * time.Minute},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// hypervisor is a ready one.
func hypervisor(name string, changes ...func(*v1alpha1.Hypervisor)) *v1alpha1.Hypervisor {
	hv := &v1alpha1.Hypervisor{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec:       v1alpha1.HypervisorSpec{URI: "qemu+tcp://" + name + "/system"},
		Status: v1alpha1.HypervisorStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady}},
			Allocatable: &v1alpha1.HypervisorResources{
				CPU: 8, Memory: resource.MustParse("16Gi"), Storage: resource.MustParse("100Gi"),
			},
		},
	}
	for _, change := range changes {
		change(hv)
	}
	return hv
}
