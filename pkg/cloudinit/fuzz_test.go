package cloudinit_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/proxyard/proxyard/pkg/cloudinit"
)

// FuzzPrepare looks for documents that panic, that are not settled by one pass, or that lose something. What the document
// means is read here by the library's nodes with their text, apart from the code under test.
func FuzzPrepare(f *testing.F) {
	for _, doc := range good() {
		f.Add([]byte(doc))
	}
	for _, c := range bad() {
		f.Add([]byte(c.data))
	}
	for _, c := range kinds() {
		f.Add([]byte(c.data))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		out, err := cloudinit.Prepare(cloudinit.Documents{UserData: doc}, cloudinit.AgentInstall)
		if err != nil {
			var fault *cloudinit.Error
			require.ErrorAs(t, err, &fault)
			require.NotEmpty(t, fault.Msg)
			return
		}
		again, err := cloudinit.Prepare(out, cloudinit.AgentInstall)
		require.NoError(t, err)
		require.Equal(t, out, again)
		if cloudinit.Classify(doc) != cloudinit.CloudConfig {
			require.Equal(t, string(doc), string(out.UserData))
			return
		}
		require.Equal(t, cloudinit.CloudConfig, cloudinit.Classify(out.UserData))
		requireOnlyAdded(t, doc, out.UserData)
	})
}

// requireOnlyAdded wants every scalar of before in after, in the same number at least, and the agent once in both lists.
func requireOnlyAdded(t *testing.T, before, after []byte) {
	t.Helper()
	old, _ := scalars(t, before)
	now, root := scalars(t, after)
	for s, n := range old {
		require.GreaterOrEqual(t, now[s], n, "the scalar %q was lost or changed", s)
	}
	var lists int
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Value == "packages" || key.Value == "runcmd" {
			lists++
			require.Contains(t, []yaml.Kind{yaml.SequenceNode, yaml.AliasNode}, value.Kind)
		}
	}
	if !bytes.Contains(before, []byte("<<")) {
		require.GreaterOrEqual(t, lists, 2)
	}
}

// scalars counts the scalars by tag and text.
func scalars(t *testing.T, doc []byte) (map[string]int, *yaml.Node) {
	t.Helper()
	var n yaml.Node
	require.NoError(t, yaml.Unmarshal(doc, &n))
	counts := map[string]int{}
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
			counts[n.ShortTag()+" "+n.Value]++
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(&n)
	if len(n.Content) == 0 {
		return counts, &yaml.Node{}
	}
	return counts, n.Content[0]
}

// FuzzPrepareVendor does the same for vendor-data beside a user-data that is no cloud-config.
func FuzzPrepareVendor(f *testing.F) {
	for _, c := range vendorCases() {
		f.Add([]byte(c.user), []byte(c.vendor))
	}
	f.Fuzz(func(t *testing.T, user, vendor []byte) {
		in := cloudinit.Documents{UserData: user, VendorData: vendor}
		out, err := cloudinit.Prepare(in, cloudinit.AgentInstall)
		if err != nil {
			return
		}
		again, err := cloudinit.Prepare(out, cloudinit.AgentInstall)
		require.NoError(t, err)
		require.Equal(t, out, again)
		if cloudinit.Classify(user) == cloudinit.CloudConfig {
			require.Equal(t, string(vendor), string(out.VendorData))
		} else {
			require.Equal(t, string(user), string(out.UserData))
		}
	})
}

// FuzzClassify looks for panics, and for kinds that depend on what follows the beginning.
func FuzzClassify(f *testing.F) {
	for _, c := range kinds() {
		f.Add([]byte(c.data))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		k := cloudinit.Classify(doc)
		require.NotEmpty(t, k)
		if k == cloudinit.Script || k == cloudinit.CloudConfig {
			require.Equal(t, k, cloudinit.Classify(append(append([]byte{}, doc...), "\nmore\n"...)))
		}
	})
}
