package cloudinit_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/pkg/cloudinit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden shows what becomes of whole documents: testdata/golden/<case>.in and .out, a pair each. A case is user-data,
// or, where its name begins with "vendor", the vendor-data of a Proxy whose user-data is named by the rest.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.in")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			doc, err := os.ReadFile(path)
			require.NoError(t, err)
			got := preparedGolden(t, filepath.Base(path), doc)
			golden := strings.TrimSuffix(path, ".in") + ".out"
			if *update {
				require.NoError(t, os.WriteFile(golden, got, 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got))
		})
	}
}

func preparedGolden(t *testing.T, name string, doc []byte) []byte {
	t.Helper()
	in := cloudinit.Documents{UserData: doc}
	switch {
	case strings.HasPrefix(name, "vendor-script"):
		in = cloudinit.Documents{UserData: []byte("#!/bin/sh\n"), VendorData: doc}
	case strings.HasPrefix(name, "vendor-mime"):
		in = cloudinit.Documents{UserData: []byte(mimeDocument), VendorData: doc}
	}
	out, err := cloudinit.Prepare(in, cloudinit.AgentInstall)
	require.NoError(t, err)
	if strings.HasPrefix(name, "vendor") {
		return out.VendorData
	}
	return out.UserData
}

// TestPrepareLargeDocument: an object in Kubernetes may hold 1 MiB.
func TestPrepareLargeDocument(t *testing.T) {
	doc := "#cloud-config\npackages:\n" + strings.Repeat("- package-of-a-long-list\n", 1<<20/25) + "hostname: x\n"
	out, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(doc)}, cloudinit.AgentInstall)
	require.NoError(t, err)
	assert.Contains(t, string(out.UserData), "- qemu-guest-agent\nhostname: x\n")
}

// TestPrepareBoundsAliases: what must be written out is bounded, and said so.
func TestPrepareBoundsAliases(t *testing.T) {
	doc := "#cloud-config\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for _, level := range []string{"b", "c", "d", "e", "f", "g"} {
		below := "*" + string(level[0]-1)
		doc += level + ": &" + level + " [" + strings.Repeat(below+", ", 9) + below + "]\n"
	}
	_, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(doc + "packages: *g\n")}, cloudinit.AgentInstall)
	var fault *cloudinit.Error
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, 9, fault.Line)
	assert.Contains(t, fault.Msg, "packages")

	merges := "#cloud-config\na: &a {k: v}\n"
	for _, level := range []string{"b", "c", "d", "e", "f", "g"} {
		below := "*" + string(level[0]-1)
		merges += level + ": &" + level + " {<<: [" + strings.Repeat(below+", ", 9) + below + "]}\n"
	}
	_, err = cloudinit.Prepare(cloudinit.Documents{UserData: []byte(merges + "<<: *g\n")}, cloudinit.AgentInstall)
	require.ErrorAs(t, err, &fault)
	assert.Contains(t, fault.Msg, "merge keys")
}
