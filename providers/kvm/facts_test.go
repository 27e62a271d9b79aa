package kvm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func TestResolveVirtType(t *testing.T) {
	doc := func(feature, domain string) string {
		return `<capabilities><host><uuid>u</uuid><cpu><arch>x86_64</arch><model>EPYC</model>` + feature + `</cpu></host>
			<guest><os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/>` + domain + `</arch></guest></capabilities>`
	}
	const kvm, vmx = `<domain type='kvm'/>`, `<feature name='vmx'/>`
	for name, tc := range map[string]struct {
		doc, expanded string
		want          providers.VirtType
		reason        string
	}{
		"vmx listed":           {doc(vmx, kvm), "", providers.VirtTypeKVM, ""},
		"svm implied by model": {doc("", kvm), `<cpu><feature name='svm' policy='require'/></cpu>`, providers.VirtTypeKVM, "EPYC implies svm and does not list it"},
		"kvm without feature":  {doc("", kvm), `<cpu><feature name='aes'/></cpu>`, providers.VirtTypeQEMU, "/dev/kvm exists in some sandboxes, and guests hang"},
		"feature without kvm":  {doc(vmx, ""), "", providers.VirtTypeQEMU, "the host does not offer it"},
		"garbage":              {doc("", kvm), "<", providers.VirtTypeQEMU, "an old host cannot expand"},
	} {
		t.Run(name, func(t *testing.T) {
			caps, err := parseCapabilities(tc.doc)
			require.NoError(t, err)
			assert.Equal(t, tc.want, resolveVirtType(caps, tc.expanded), tc.reason)
		})
	}
	assert.Equal(t, "9.0.0", version(9_000_000))
	assert.Equal(t, "7.2.22", version(7_002_022))
}

func TestParseBootResult(t *testing.T) {
	for name, tc := range map[string]struct {
		doc  string
		want providers.BootReport
	}{
		"done":     {`{"v1":{"datasource":"DataSourceNoCloud","errors":[]}}`, providers.BootReport{CloudInit: providers.CloudInitDone}},
		"error":    {`{"v1":{"errors":["('scripts_user', RuntimeError('x'))"]}}`, providers.BootReport{CloudInit: providers.CloudInitError, Errors: []string{"('scripts_user', RuntimeError('x'))"}}},
		"degraded": {`{"v1":{"errors":[],"recoverable_errors":{"WARNING":["b","a"]}}}`, providers.BootReport{CloudInit: providers.CloudInitDegraded, Errors: []string{"a", "b"}}},
		"garbage":  {`{`, providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: "BootResultUnreadable", Message: "cloud-init's result.json cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, parseBootResult([]byte(tc.doc))) })
	}
}
