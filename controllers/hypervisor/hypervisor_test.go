package hypervisor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/index"
	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

type world struct {
	t        *testing.T
	client   client.Client
	provider *simulated.Provider
	r        *Reconciler
	now      time.Time
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	w.provider = simulated.New(simulated.Options{ClusterID: "test"})
	t.Cleanup(w.provider.Close)
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Hypervisor{}, &v1alpha1.Proxy{})
	for field, fn := range index.Functions() {
		b = b.WithIndex(&v1alpha1.Proxy{}, field, fn)
	}
	w.client = b.Build()
	w.r = New(Options{
		Client: w.client, Reader: w.client, Recorder: events.NewFakeRecorder(100), Source: w.provider, Namespace: "operator",
		Now: func() time.Time { return w.now },
	})
	return w
}

func (w *world) reconcile() *v1alpha1.Hypervisor {
	w.t.Helper()
	_, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "kvm1"}})
	require.NoError(w.t, err)
	hv := &v1alpha1.Hypervisor{}
	require.NoError(w.t, client.IgnoreNotFound(w.client.Get(w.t.Context(), client.ObjectKey{Name: "kvm1"}, hv)))
	return hv
}

func conditionOf(t *testing.T, hv *v1alpha1.Hypervisor, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(hv.Status.Conditions, kind)
	require.NotNil(t, c, "%+v", hv.Status)
	return *c
}

func kvm1(changes ...func(*v1alpha1.Hypervisor)) *v1alpha1.Hypervisor {
	hv := &v1alpha1.Hypervisor{
		ObjectMeta: metav1.ObjectMeta{Name: "kvm1", Generation: 1},
		Spec: v1alpha1.HypervisorSpec{
			URI: "qemu+ssh://root@kvm1/system", StoragePool: "default", Network: v1alpha1.HypervisorNetwork{Name: "default"},
			VirtType: v1alpha1.VirtTypeAuto, Overcommit: v1alpha1.Overcommit{CPU: 4, Memory: 1},
		},
	}
	for _, change := range changes {
		change(hv)
	}
	return hv
}

func withSecret(hv *v1alpha1.Hypervisor) {
	hv.Spec.CredentialsRef = &corev1.LocalObjectReference{Name: "kvm1"}
}

func placed(name string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec: v1alpha1.ProxySpec{Resources: v1alpha1.ProxyResources{
			CPU: 2, Memory: resource.MustParse("1Gi"), Disk: resource.MustParse("8Gi"),
		}},
		Status: v1alpha1.ProxyStatus{Hypervisor: "kvm1"},
	}
}

func TestHostIsShownAndQuiet(t *testing.T) {
	w := newWorld(t, kvm1(), placed("a"), placed("b"))
	w.reconcile()
	hv := w.reconcile()
	assert.Equal(t, v1alpha1.ReasonReady, conditionOf(t, hv, v1alpha1.ConditionReady).Reason)
	assert.Equal(t, int32(2), hv.Status.Proxies)
	assert.Equal(t, int32(4), hv.Status.Allocated.CPU)
	assert.Equal(t, "2Gi", hv.Status.Allocated.Memory.String())
	assert.Equal(t, int32(16), hv.Status.Capacity.CPU)
	assert.Equal(t, int32(64), hv.Status.Allocatable.CPU, "four times overcommitted")
	assert.Equal(t, "64Gi", hv.Status.Allocatable.Memory.String())
	assert.Equal(t, v1alpha1.VirtTypeKVM, hv.Status.VirtType)
	assert.NotEmpty(t, hv.Status.Versions.Libvirt)
	assert.NotNil(t, hv.Status.LastSeenTime)
	assert.Contains(t, hv.Finalizers, v1alpha1.HypervisorFinalizer)
	version := hv.ResourceVersion
	for range 5 {
		hv = w.reconcile()
	}
	assert.Equal(t, version, hv.ResourceVersion, "nothing changed, so nothing may be written")
}

func TestBadInputSaysWhy(t *testing.T) {
	poolMissing := &providers.Error{Kind: providers.NotFound, Reason: "PoolNotFound", Msg: "there is no storage pool default"}
	for name, c := range map[string]struct {
		hv        *v1alpha1.Hypervisor
		fault     func(*simulated.Faults)
		condition string
		reason    string
		message   string
	}{
		"missing secret":     {kvm1(withSecret), nil, v1alpha1.ConditionConnected, v1alpha1.ReasonSecretNotFound, `secret "kvm1" does not exist in namespace "operator"`},
		"unusable URI":       {kvm1(func(hv *v1alpha1.Hypervisor) { hv.Spec.URI = "kvm1" }), nil, v1alpha1.ConditionConnected, "InvalidURI", "uri"},
		"credentials denied": {kvm1(), func(f *simulated.Faults) { f.HostDenied("kvm1", true) }, v1alpha1.ConditionConnected, "Denied", ""},
		"host down":          {kvm1(), func(f *simulated.Faults) { f.HostDown("kvm1", true) }, v1alpha1.ConditionConnected, v1alpha1.ReasonHostUnreachable, ""},
		"pool missing":       {kvm1(), func(f *simulated.Faults) { f.HostStorage("kvm1", poolMissing) }, v1alpha1.ConditionStorageReady, "PoolNotFound", "no storage pool"},
		"network inactive": {kvm1(), func(f *simulated.Faults) {
			f.HostNetwork("kvm1", &providers.Error{Kind: providers.Busy, Reason: "NetworkInactive", Msg: "network default is not active"})
		}, v1alpha1.ConditionNetworkReady, "NetworkInactive", "not active"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.hv)
			if c.fault != nil {
				c.fault(w.provider.Faults())
			}
			w.reconcile()
			hv := w.reconcile()
			got := conditionOf(t, hv, c.condition)
			assert.Equal(t, metav1.ConditionFalse, got.Status)
			assert.Equal(t, c.reason, got.Reason)
			assert.Contains(t, got.Message, c.message)
			ready := conditionOf(t, hv, v1alpha1.ConditionReady)
			assert.Equal(t, metav1.ConditionFalse, ready.Status)
			assert.Equal(t, c.reason, ready.Reason)
			assert.Equal(t, int64(1), hv.Status.ObservedGeneration)
		})
	}
}

func TestSecretIsReadAgain(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "operator", Name: "kvm1"}, Data: map[string][]byte{"ssh-privatekey": []byte("old")}}
	hosts := &recordingSource{HostSource: nil}
	w := newWorld(t, kvm1(withSecret), secret)
	hosts.HostSource, w.r.Source = w.provider, hosts
	w.reconcile()
	assert.Equal(t, "old", string(hosts.last.Credentials["ssh-privatekey"]))
	secret.Data["ssh-privatekey"] = []byte("new")
	require.NoError(t, w.client.Update(t.Context(), secret))
	w.reconcile()
	assert.Equal(t, "new", string(hosts.last.Credentials["ssh-privatekey"]), "a rotation needs no restart")
}

type recordingSource struct {
	providers.HostSource
	last providers.Host
}

func (r *recordingSource) SetHost(ctx context.Context, h providers.Host) error {
	r.last = h
	return r.HostSource.SetHost(ctx, h)
}

func TestCordonIsNoFault(t *testing.T) {
	w := newWorld(t, kvm1(func(hv *v1alpha1.Hypervisor) { hv.Spec.Unschedulable = true }))
	w.reconcile()
	c := conditionOf(t, w.reconcile(), v1alpha1.ConditionReady)
	assert.Equal(t, metav1.ConditionTrue, c.Status)
	assert.Equal(t, v1alpha1.ReasonUnschedulable, c.Reason)
}

func TestSilentHostKeepsWhatIsKnown(t *testing.T) {
	w := newWorld(t, kvm1())
	w.reconcile()
	before := w.reconcile().Status
	w.provider.Faults().HostDown("kvm1", true)
	after := w.reconcile().Status
	assert.Equal(t, before.Capacity, after.Capacity)
	assert.Equal(t, before.Versions, after.Versions)
	assert.True(t, meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionStorageReady))
	assert.True(t, meta.IsStatusConditionFalse(after.Conditions, v1alpha1.ConditionReady))
}

func TestHypervisorInUseStaysAndStaysConnected(t *testing.T) {
	px := placed("a")
	w := newWorld(t, kvm1(), px)
	hv := w.reconcile()
	require.NoError(t, w.client.Delete(t.Context(), hv))
	require.NoError(t, w.provider.RemoveHost(t.Context(), "kvm1")) // as after a restart of the manager
	hv = w.reconcile()
	assert.Equal(t, v1alpha1.ReasonInUse, conditionOf(t, hv, v1alpha1.ConditionReady).Reason)
	_, err := w.provider.HostStatus(t.Context(), "kvm1")
	require.NoError(t, err, "its Proxies can only be deleted through it")

	require.NoError(t, w.client.Delete(t.Context(), px))
	w.reconcile()
	assert.True(t, apierrors.IsNotFound(w.client.Get(t.Context(), client.ObjectKey{Name: "kvm1"}, hv)))
	_, err = w.provider.HostStatus(t.Context(), "kvm1")
	assert.Error(t, err, "the host is forgotten")
}

func TestPausedAnnotationStopsEverything(t *testing.T) {
	w := newWorld(t, kvm1(func(hv *v1alpha1.Hypervisor) { hv.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"} }))
	hv := w.reconcile()
	assert.Empty(t, hv.Finalizers)
	assert.Equal(t, metav1.ConditionTrue, conditionOf(t, hv, v1alpha1.ConditionPaused).Status)
	_, err := w.provider.HostStatus(t.Context(), "kvm1")
	assert.Error(t, err, "the host was not handed over")
}

func TestLastSeenIsWrittenRarely(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	old := metav1.NewTime(at)
	for name, c := range map[string]struct {
		seen    time.Time
		changed bool
		want    time.Time
	}{
		"a little later":                 {at.Add(time.Minute), false, at},
		"much later":                     {at.Add(lastSeenEvery), false, at.Add(lastSeenEvery)},
		"when something else is written": {at.Add(time.Minute), true, at.Add(time.Minute)},
		"not known":                      {time.Time{}, false, at},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(kvm1(func(hv *v1alpha1.Hypervisor) { hv.Status.LastSeenTime = &old }))
			s.observed = &providers.HostStatus{LastSeen: c.seen}
			next := s.before.Status
			if c.changed {
				next.Proxies++
			}
			assert.True(t, c.want.Equal(lastSeen(s, next).Time))
		})
	}
}

func TestAllocatable(t *testing.T) {
	gi := int64(1 << 30)
	for name, c := range map[string]struct {
		free, disk, want int64
		reason           string
	}{
		"empty pool":      {100 * gi, 0, 100 * gi, ""},
		"thin overlays":   {95 * gi, 40 * gi, 100 * gi, "never more than the pool"},
		"others use much": {10 * gi, 8 * gi, 18 * gi, "what is free plus what the Proxies' disks may hold"},
		"small moves":     {100*gi - 1, 0, 100*gi - storageGrain, "a block more or less is no news"},
	} {
		t.Run(name, func(t *testing.T) {
			got := allocatable(providers.Capacity{CPUs: 2, MemoryBytes: gi, StorageBytes: 100 * gi, StorageFreeBytes: c.free}, v1alpha1.Overcommit{CPU: 4, Memory: 2}, usage{disk: c.disk})
			assert.Equal(t, c.want, got.Storage.Value(), c.reason)
			assert.Equal(t, int32(8), got.CPU)
			assert.Equal(t, 2*gi, got.Memory.Value())
		})
	}
}
