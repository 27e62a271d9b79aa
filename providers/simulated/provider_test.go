package simulated_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/simulated"
)

// newProvider has the hosts h1 and h2 and is closed with the test.
func newProvider(t *testing.T, o simulated.Options) *simulated.Provider {
	t.Helper()
	p := simulated.New(o)
	t.Cleanup(p.Close)
	for _, h := range []string{"h1", "h2"} {
		require.NoError(t, p.SetHost(t.Context(), providers.Host{Name: h, URI: "sim://" + h}))
	}
	return p
}

// machine is one that works on h1.
func machine(uid string) providers.Machine {
	return providers.Machine{
		Tag:       providers.Tag{ClusterID: simulated.DefaultClusterID, Namespace: "ns", Name: "px", UID: uid},
		Host:      "h1",
		Image:     providers.Image{URL: "http://images.test/debian.qcow2", Checksum: "sha256:" + strings.Repeat("a", 64)},
		Resources: providers.Resources{CPUs: 1, MemoryBytes: 1 << 29, DiskBytes: 1 << 33},
	}
}
