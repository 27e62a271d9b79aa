//go:build controlplane

package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/proxyard/proxyard/apis/v1alpha1"
)

const validProxy = `
apiVersion: proxyard.dev/v1alpha1
kind: Proxy
metadata: {name: valid, namespace: validation}
spec:
  image: {url: "http://images.example/debian.qcow2", checksum: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
  userData: "#cloud-config\n{}\n"
`

const validHypervisor = `
apiVersion: proxyard.dev/v1alpha1
kind: Hypervisor
metadata: {name: valid}
spec: {uri: "qemu+tcp://host/system"}
`

// object is the document with fields set, each by its path; a nil value removes the field.
func object(t *testing.T, document string, fields map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
	for path, value := range fields {
		set(t, o, path, value)
	}
	return o
}

func set(t *testing.T, o *unstructured.Unstructured, path string, value any) {
	t.Helper()
	if value == nil {
		unstructured.RemoveNestedField(o.Object, "spec", path)
		return
	}
	var plain any
	data, err := json.Marshal(value)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &plain))
	require.NoError(t, unstructured.SetNestedField(o.Object, plain, "spec", path))
}

type fields = map[string]any

func TestAPIRefusesWhatCanNeverWork(t *testing.T) {
	namespaced(t, "validation")
	image := func(url, checksum string) fields { return fields{"image": fields{"url": url, "checksum": checksum}} }
	good := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		document string
		fields   fields
		message  string
	}{
		"two user-data sources":      {validProxy, fields{"userDataFrom": fields{"secretKeyRef": fields{"name": "a", "key": "b"}}}, "set only one of userData and userDataFrom"},
		"no source and no clients":   {validProxy, fields{"userData": nil}, "Proxyard makes no open proxies"},
		"no clients but credentials": {validProxy, fields{"userData": nil, "access": fields{"credentialsRef": fields{"name": "a"}}}, "Proxyard makes no open proxies"},
		"secret and config map":      {validProxy, fields{"userData": nil, "userDataFrom": fields{"secretKeyRef": fields{"name": "a", "key": "b"}, "configMapKeyRef": fields{"name": "a", "key": "b"}}}, "set exactly one of userDataFrom.secretKeyRef"},
		"client that is no network":  {validProxy, fields{"access": fields{"allowedClients": []string{"10.0.0.1"}}}, "access.allowedClients must hold networks"},
		"image by ftp":               {validProxy, image("ftp://images.example/x", good), "image.url must be an http:// or https:// URL"},
		"checksum of another kind":   {validProxy, image("http://images.example/x", "md5:0123"), "image.checksum must be sha256:"},
		"two placements":             {validProxy, fields{"placement": fields{"hypervisor": "a", "hypervisorSelector": fields{}}}, "set exactly one of placement.hypervisor"},
		"memory too small":           {validProxy, fields{"resources": fields{"memory": "1Mi"}}, "resources.memory must be between 128Mi and 1Ti"},
		"disk too small":             {validProxy, fields{"resources": fields{"disk": "1Mi"}}, "resources.disk must be between 64Mi and 16Ti"},
		"no CPU":                     {validProxy, fields{"resources": fields{"cpu": -1}}, "spec.resources.cpu"},
		"port out of range":          {validProxy, fields{"port": 70000}, "spec.port"},
		"health URL of no scheme":    {validProxy, fields{"health": fields{"url": "probe.example"}}, "health.url must be an http:// or https:// URL"},
		"time-out over interval":     {validProxy, fields{"health": fields{"interval": "5s", "timeout": "6s"}}, "health.timeout must not be longer than health.interval"},
		"boot deadline too short":    {validProxy, fields{"bootDeadline": "1s"}, "bootDeadline must be between 1m and 24h"},
		"provider that is no name":   {validProxy, fields{"provider": "KVM!"}, "spec.provider"},
		"unknown firmware":           {validProxy, fields{"firmware": "OpenFirmware"}, "spec.firmware"},
		"Secret's name is none":      {validProxy, fields{"userData": nil, "userDataFrom": fields{"secretKeyRef": fields{"name": "A B/../c", "key": "k"}}}, "spec.userDataFrom.secretKeyRef.name"},
		"key is none":                {validProxy, fields{"userData": nil, "userDataFrom": fields{"secretKeyRef": fields{"name": "s", "key": "../x"}}}, "spec.userDataFrom.secretKeyRef.key"},
		"unknown scheme":             {validHypervisor, fields{"uri": "xen://host"}, "uri must start with qemu+ssh://"},
		"password in the uri":        {validHypervisor, fields{"uri": "qemu+ssh://root:hunter2@host/system"}, "uri must not hold a password"},
		"network and bridge":         {validHypervisor, fields{"network": fields{"name": "default", "bridge": "br0"}}, "set exactly one of network.name and network.bridge"},
		"overcommit out of range":    {validHypervisor, fields{"overcommit": fields{"memory": 99}}, "spec.overcommit.memory"},
	} {
		t.Run(name, func(t *testing.T) {
			err := shared.admin.Create(t.Context(), object(t, c.document, c.fields))
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.message)
		})
	}
}

func TestMachineIsImmutableAndHealthIsNot(t *testing.T) {
	namespaced(t, "validation")
	o := object(t, validProxy, nil)
	o.SetName("fixed")
	require.NoError(t, shared.admin.Create(t.Context(), o))
	for name, c := range map[string]struct {
		field   string
		value   any
		message string
	}{
		"image":        {"image", fields{"url": "http://other.example/x", "checksum": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}, "image is immutable: delete and recreate the Proxy"},
		"port":         {"port", 3129, "port is immutable"},
		"resources":    {"resources", fields{"cpu": 2}, "resources are immutable"},
		"placement":    {"placement", fields{"hypervisor": "kvm1"}, "placement is immutable"},
		"userData":     {"userData", "#cloud-config\npackages: [squid]\n", "userData is immutable, since cloud-init applies it once"},
		"vendorData":   {"vendorData", "#cloud-config\n{}\n", "vendorData is immutable"},
		"guestAgent":   {"guestAgent", "None", "guestAgent is immutable"},
		"provider":     {"provider", "other", "provider is immutable"},
		"health":       {"health", fields{"interval": "1m"}, ""},
		"bootDeadline": {"bootDeadline", "20m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := o.DeepCopy()
			set(t, changed, c.field, c.value)
			err := shared.admin.Update(t.Context(), changed)
			if c.message == "" {
				require.NoError(t, err)
				o.SetResourceVersion(changed.GetResourceVersion())
				return
			}
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.message)
		})
	}
}

func TestPoolIsImmutableAndTheURIIsNot(t *testing.T) {
	o := object(t, validHypervisor, nil)
	o.SetName("pool")
	require.NoError(t, shared.admin.Create(t.Context(), o))
	t.Cleanup(func() { assert.NoError(t, shared.admin.Delete(context.WithoutCancel(t.Context()), o)) })
	set(t, o, "uri", "qemu+ssh://root@[fe80::1]:2222/system")
	require.NoError(t, shared.admin.Update(t.Context(), o))
	set(t, o, "storagePool", "other")
	require.ErrorContains(t, shared.admin.Update(t.Context(), o), "declare another Hypervisor for another pool")
}

func TestDefaults(t *testing.T) {
	namespaced(t, "validation")
	o := object(t, validProxy, nil)
	o.SetName("defaults")
	require.NoError(t, shared.admin.Create(t.Context(), o))
	var p v1alpha1.Proxy
	data, err := json.Marshal(o.Object)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &p))
	assert.Equal(t, "kvm", p.Spec.Provider)
	assert.Equal(t, int32(3128), p.Spec.Port)
	assert.Equal(t, "512Mi", p.Spec.Resources.Memory.String())
	assert.Equal(t, int32(204), p.Spec.Health.ExpectedStatus)
	assert.Equal(t, "30s", p.Spec.Health.Interval.Duration.String())
	assert.Equal(t, int32(3), p.Spec.Health.FailureThreshold)
	assert.Equal(t, "15m0s", p.Spec.BootDeadline.Duration.String())
}

func TestPrinterColumns(t *testing.T) {
	for resource, want := range map[string][]string{
		"proxies":     {"Name", "Phase", "Hypervisor", "Endpoint", "Healthy", "Age", "Image", "Latency", "Reason"},
		"hypervisors": {"Name", "Ready", "Virt", "Proxies", "Age", "URI", "Libvirt", "QEMU", "Reason"},
	} {
		config := rest.CopyConfig(shared.adminConfig)
		config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &v1alpha1.GroupVersion, "/apis", scheme.Codecs.WithoutConversion()
		c, err := rest.RESTClientFor(config)
		require.NoError(t, err)
		data, err := c.Get().Resource(resource).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
		require.NoError(t, err)
		var table metav1.Table
		require.NoError(t, json.Unmarshal(data, &table))
		var got []string
		for _, column := range table.ColumnDefinitions {
			got = append(got, column.Name)
		}
		assert.Equal(t, want, got)
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	ns := &corev1.Namespace{}
	ns.Name = "default"
	_ = shared.admin.Create(t.Context(), ns) // a control plane makes it by itself; a minimal one may be slow to
	require.NoError(t, apply(t.Context(), shared.admin, configDir+"/samples/*.yaml"))
	require.NoError(t, apply(t.Context(), shared.admin, configDir+"/samples/rendered/*.yaml"))
	for _, name := range []string{"shop", "news", "office"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "proxyard.dev/v1alpha1", "kind": "Proxy"}}
		o.SetNamespace("default")
		o.SetName(name)
		assert.NoError(t, shared.admin.Delete(t.Context(), o))
	}
	for _, name := range []string{"kvm1", "kvm2"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "proxyard.dev/v1alpha1", "kind": "Hypervisor"}}
		o.SetName(name)
		assert.NoError(t, shared.admin.Delete(t.Context(), o))
	}
}
