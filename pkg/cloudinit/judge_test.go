//go:build cloudinit

package cloudinit_test

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/pkg/cloudinit"
	"github.com/proxyard/proxyard/pkg/squidconf"
)

//go:embed testdata/judge.py
var judgeProgram string

type pair struct {
	Before  string            `json:"before"`
	After   string            `json:"after"`
	Entries map[string]string `json:"entries"`
	Schema  bool              `json:"schema"`
}

type merge struct {
	User   string `json:"user"`
	Vendor string `json:"vendor"`
}

type question struct {
	Pairs  []pair   `json:"pairs,omitempty"`
	Kinds  []string `json:"kinds,omitempty"`
	Loads  []string `json:"loads,omitempty"`
	Merges []merge  `json:"merges,omitempty"`
}

type verdict struct {
	Pairs  []string `json:"pairs"`
	Kinds  []string `json:"kinds"`
	Loads  []string `json:"loads"`
	Merges []struct {
		Config        map[string]any    `json:"config"`
		UserScripts   map[string]string `json:"userScripts"`
		VendorScripts map[string]string `json:"vendorScripts"`
	} `json:"merges"`
}

// ask runs one Python process for all documents. A machine without cloud-init fails here.
func ask(t *testing.T, q question) verdict {
	t.Helper()
	in, err := json.Marshal(q)
	require.NoError(t, err)
	cmd := exec.Command("/usr/bin/python3", "-c", judgeProgram)
	cmd.Stdin = bytes.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "the judge needs Debian's cloud-init and python3-yaml: %s", stderr.String())
	var v verdict
	require.NoError(t, json.Unmarshal(out, &v))
	return v
}

func prepared(t *testing.T, name, doc string) pair {
	t.Helper()
	out, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(doc)}, cloudinit.AgentInstall)
	require.NoError(t, err, name)
	p := pair{Before: doc, After: string(out.UserData), Entries: map[string]string{
		"packages": "qemu-guest-agent", "runcmd": command,
	}}
	if strings.Contains(doc, "qemu-guest-agent") {
		p.Entries["packages"] = ""
		if strings.Contains(doc, "systemctl") {
			p.Entries["runcmd"] = ""
		}
	}
	return p
}

func TestJudgeNastyDocuments(t *testing.T) {
	var q question
	names := slices.Sorted(maps.Keys(good()))
	for _, name := range names {
		q.Pairs = append(q.Pairs, prepared(t, name, good()[name]))
	}
	for i, fault := range ask(t, q).Pairs {
		assert.Empty(t, fault, "%s:\n%s", names[i], q.Pairs[i].After)
	}
}

// TestJudgeShippedExamples takes what Debian ships with cloud-init, as strangers' documents.
func TestJudgeShippedExamples(t *testing.T) {
	files, err := filepath.Glob("/usr/share/doc/cloud-init/examples/cloud-config*.txt*")
	require.NoError(t, err)
	var q question
	var names []string
	for _, f := range files {
		doc := readExample(t, f)
		if cloudinit.Classify(doc) != cloudinit.CloudConfig {
			continue
		}
		if slices.Contains(refusedExamples(), filepath.Base(f)) {
			_, err := cloudinit.Prepare(cloudinit.Documents{UserData: doc}, cloudinit.AgentInstall)
			require.ErrorContains(t, err, "stands already on line", f)
			continue
		}
		names = append(names, filepath.Base(f))
		p := prepared(t, f, string(doc))
		p.Schema = true
		q.Pairs = append(q.Pairs, p)
	}
	require.Greater(t, len(names), 20, "the examples of the cloud-init package are missing")
	for i, fault := range ask(t, q).Pairs {
		assert.Empty(t, fault, "%s:\n%s", names[i], q.Pairs[i].After)
	}
}

// refusedExamples show variants of one key in one file, of which cloud-init would silently use the last.
func refusedExamples() []string {
	return []string{"cloud-config-add-apt-repos.txt", "cloud-config-disk-setup.txt.gz"}
}

func readExample(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		r, err = gzip.NewReader(f)
		require.NoError(t, err)
	}
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return data
}

func TestJudgeKinds(t *testing.T) {
	types := map[cloudinit.Kind]string{
		cloudinit.Empty: "text/x-not-multipart", cloudinit.Unrecognised: "text/x-not-multipart",
		cloudinit.CloudConfig: "text/cloud-config", cloudinit.Script: "text/x-shellscript",
		cloudinit.JinjaTemplate: "text/jinja2", cloudinit.Boothook: "text/cloud-boothook",
		cloudinit.PartHandler: "text/part-handler", cloudinit.JSONP: "text/cloud-config-jsonp",
	}
	var q question
	var want []string
	for _, c := range kinds() {
		if types[c.kind] == "" {
			continue // these are containers, which cloud-init unfolds or fetches
		}
		q.Kinds = append(q.Kinds, hex.EncodeToString([]byte(c.data)))
		want = append(want, c.name+": "+types[c.kind])
	}
	for i, got := range ask(t, q).Kinds {
		if strings.HasSuffix(want[i], "text/x-not-multipart") && strings.HasPrefix(got, "text/plain") {
			continue
		}
		assert.Equal(t, want[i], strings.SplitN(want[i], ": ", 2)[0]+": "+got)
	}
}

// TestJudgeRefused has PyYAML confirm that what we refuse as unreadable is unreadable.
func TestJudgeRefused(t *testing.T) {
	var q question
	var names []string
	for _, c := range bad() {
		if c.pyyaml {
			names = append(names, c.name)
			q.Loads = append(q.Loads, c.data)
		}
	}
	require.NotEmpty(t, names)
	for i, got := range ask(t, q).Loads {
		assert.Equal(t, "error", got, names[i])
	}
}

// TestJudgeMerges has cloud-init consume user-data and vendor-data before and after, and merge what they hold.
func TestJudgeMerges(t *testing.T) {
	var q question
	names := slices.Sorted(maps.Keys(vendorCases()))
	for _, name := range names {
		c := vendorCases()[name]
		out, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(c.user), VendorData: []byte(c.vendor)}, cloudinit.AgentInstall)
		require.NoError(t, err, name)
		q.Merges = append(q.Merges,
			merge{hex.EncodeToString([]byte(c.user)), hex.EncodeToString([]byte(c.vendor))},
			merge{hex.EncodeToString(out.UserData), hex.EncodeToString(out.VendorData)})
	}
	answers := ask(t, q).Merges
	for i, name := range names {
		before, after := answers[2*i], answers[2*i+1]
		t.Run(name, func(t *testing.T) {
			form := vendorCases()[name].form
			assert.Equal(t, before.UserScripts, after.UserScripts)
			scripts := slices.Sorted(maps.Values(before.VendorScripts))
			if form == "script" {
				bootstrap := slices.DeleteFunc(slices.Collect(maps.Values(after.VendorScripts)), func(s string) bool { return !strings.Contains(s, mark) })
				require.Len(t, bootstrap, 1, "the bootstrap must be a script")
				scripts = slices.Sorted(slices.Values(append(scripts, bootstrap[0])))
			} else {
				add(before.Config, "packages", "qemu-guest-agent")
				add(before.Config, "runcmd", command)
			}
			assert.Equal(t, scripts, slices.Sorted(maps.Values(after.VendorScripts)))
			assert.Equal(t, before.Config, after.Config)
		})
	}
}

// add is what must become of a list.
func add(config map[string]any, key, entry string) {
	list, _ := config[key].([]any)
	for _, have := range list {
		if have == entry || have == "systemctl start qemu-guest-agent" {
			return
		}
	}
	config[key] = append(list, entry)
}

// TestJudgeRenderedSquid: our own cloud-config must please cloud-init's schema altogether.
func TestJudgeRenderedSquid(t *testing.T) {
	config, err := squidconf.CloudConfig(squidconf.Config{
		Hostname: "px", Port: 3128, AllowedClients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		User: &squidconf.User{Name: "u", Password: "p"},
	}, []byte("salt"))
	require.NoError(t, err)
	p := prepared(t, "squid", string(config))
	p.Schema = true
	empty := pair{Before: "#cloud-config\n", After: p.After, Schema: true}
	v := ask(t, question{Pairs: []pair{p, empty}})
	assert.Empty(t, v.Pairs[0])
	assert.NotContains(t, v.Pairs[1], "schema", "an empty cloud-config has no faults, so ours must have none")
}
