package identity_test

import (
	"net"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/identity"
)

var tag = providers.Tag{ClusterID: "6a2f6c6e-51a4-4a0d-9a92-3b1f0f0a1c55", Namespace: "edge", Name: "squid-1", UID: "0e1d9f51-4f1c-4f4e-8d4a-2f3b6d1a7c11"}

// The literal values are persistent names: a change of them orphans every machine that exists.
func TestNamesAreStable(t *testing.T) {
	m, c := identity.MachineOf(tag, "kvm1"), identity.Cluster(tag.ClusterID)
	assert.Equal(t, "f92b5399-3958-5df9-98dd-37fd971edc24", m.UUID.String())
	assert.Equal(t, "02:90:99:dd:8d:17", m.MAC())
	assert.Equal(t, "pxy-ce4e5798-f92b5399-3958-5df9-98dd-37fd971edc24", c.Domain(m))
	assert.Equal(t, c.Domain(m)+"-root.qcow2", c.Root(m))
	assert.Equal(t, c.Domain(m)+"-seed.iso", c.Seed(m))
	assert.Equal(t, c.Domain(m)+"-console.log", c.Console(m))
	sum := "sha512:" + strings.Repeat("ab", 64)
	assert.Equal(t, "pxy-ce4e5798-img-sha512-abababababababababababababababab", c.Image(sum))
	assert.Equal(t, c.Image(sum)+".json", c.ImageMark(sum))
}

func TestIdentityFollowsTheOwnerOnly(t *testing.T) {
	base := identity.MachineOf(tag, "kvm1")
	with := func(f func(*providers.Tag)) providers.Tag { c := tag; f(&c); return c }
	for name, tc := range map[string]struct {
		tag    providers.Tag
		host   string
		same   bool
		reason string
	}{
		"again":                 {tag, "kvm1", true, "a create that was cut off must be found again"},
		"renamed":               {with(func(t *providers.Tag) { t.Name, t.Namespace = "x", "y" }), "kvm1", true, "the UID is the owner, names are for people"},
		"recreated":             {with(func(t *providers.Tag) { t.UID = "2" }), "kvm1", false, "a new object of an old name is another owner"},
		"other host":            {tag, "kvm2", false, "a twin on another host must be told apart"},
		"other cluster":         {with(func(t *providers.Tag) { t.ClusterID = "2" }), "kvm1", false, "clusters share hosts"},
		"fields must not blend": {with(func(t *providers.Tag) { t.UID += "k" }), "vm1", false, "the separator keeps fields apart"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.same, identity.MachineOf(tc.tag, tc.host) == base, tc.reason)
		})
	}
}

func TestMACIsLocalUnicastAndDoesNotCollide(t *testing.T) {
	seen := map[string]bool{}
	for range 20_000 {
		mac := identity.Machine{UUID: uuid.New()}.MAC()
		hw, err := net.ParseMAC(mac)
		require.NoError(t, err)
		require.Equal(t, byte(0x02), hw[0], "locally administered, unicast")
		require.False(t, seen[mac], "collision within 20,000")
		seen[mac] = true
	}
}

func TestNamesAreValidOnAnyHost(t *testing.T) {
	m, c := identity.MachineOf(tag, "kvm1"), identity.Cluster("Ünsafe/../cluster\n")
	for _, name := range []string{c.Domain(m), c.Root(m), c.Seed(m), c.Console(m), c.Image("sha256:" + strings.Repeat("0", 64))} {
		assert.Regexp(t, `^[a-z0-9.-]{1,100}$`, name, "libvirt accepts blanks and newlines in names; tools on the host do not")
	}
}

func TestMachineOfName(t *testing.T) {
	m, c := identity.MachineOf(tag, "kvm1"), identity.Cluster(tag.ClusterID)
	for name, tc := range map[string]struct {
		in     string
		ok     bool
		reason string
	}{
		"domain":        {c.Domain(m), true, "a domain carries its UUID"},
		"overlay":       {c.Root(m), true, "so does each volume"},
		"rotated log":   {c.Console(m) + ".0", true, "and what the host's log daemon makes of them"},
		"other cluster": {identity.Cluster("other").Root(m), false, "another cluster's volume is foreign"},
		"image":         {c.Image("sha256:" + strings.Repeat("0", 64)), false, "images belong to no machine"},
		"foreign":       {"debian.qcow2", false, ""},
		"cut":           {c.Domain(m)[:40], false, "part of a UUID names nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := c.MachineOfName(tc.in)
			require.Equal(t, tc.ok, ok, tc.reason)
			if ok {
				assert.Equal(t, m, got)
			}
		})
	}
}

func TestOwnershipNeedsUUIDAndMetadata(t *testing.T) {
	m, c := identity.MachineOf(tag, "kvm1"), identity.Cluster(tag.ClusterID)
	meta := identity.MetadataFor(tag, "kvm1", "default", "sha256:00")
	doc, err := meta.Marshal()
	require.NoError(t, err)
	assert.Contains(t, doc, `xmlns="https://proxyard.dev/xmlns/machine/v1"`, "libvirt silently drops elements without a name space")
	// libvirt returns the element without its name space
	back, err := identity.ParseMetadata(strings.Replace(doc, ` xmlns="`+identity.MetadataURI+`"`, "", 1))
	require.NoError(t, err)
	back.XMLName = meta.XMLName
	assert.Equal(t, meta, back)
	assert.Equal(t, tag, back.Tag())

	other := identity.Machine{UUID: uuid.New()}
	foreign := meta
	foreign.ClusterID = "other"
	assert.True(t, back.Owns(c, m))
	assert.False(t, back.Owns(c, other), "a copied domain has our metadata and another UUID")
	assert.False(t, foreign.Owns(c, m), "our UUID with another cluster's metadata")
	assert.False(t, identity.Metadata{}.Owns(c, m), "our UUID without metadata")
	assert.False(t, back.Owns(identity.Cluster("other"), m), "another cluster's machine")
}

func TestParseRefusesWhatWeNeverMade(t *testing.T) {
	for name, in := range map[string]string{"empty": "", "upper case": "F92B5399-3958-5DF9-98DD-37FD971EDC24", "braces": "{f92b5399-3958-5df9-98dd-37fd971edc24}", "words": "kvm1"} {
		t.Run(name, func(t *testing.T) {
			_, err := identity.Parse(in)
			require.ErrorIs(t, err, providers.Invalid)
		})
	}
}
