package cloudinit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/proxyard/proxyard/pkg/cloudinit"
)

func TestPrepareNetworkConfig(t *testing.T) {
	cases := map[string]struct {
		doc  string
		line int
		says string
	}{
		"none":                  {"", 0, ""},
		"version 2":             {"version: 2\nethernets:\n  all: {match: {name: 'e*'}, dhcp4: true}\n", 0, ""},
		"version 2 in network":  {"network:\n  version: 2\n  ethernets: {}\n", 0, ""},
		"version 1":             {"version: 1\nconfig:\n- {type: physical, name: eth0}\n", 0, ""},
		"version 1 as JSON":     {`{"network": {"version": 1, "config": []}}`, 0, ""},
		"version by merge":      {"x: &v {version: 2}\nnetwork:\n  <<: *v\n", 0, ""},
		"version 3":             {"version: 3\n", 1, "1 or 2"},
		"version as text":       {"version: '2'\n", 1, "1 or 2"},
		"no version":            {"network:\n  ethernets: {}\n", 2, "version"},
		"version 1, no config":  {"version: 1\n", 1, "config"},
		"a list":                {"- version: 2\n", 1, "mapping"},
		"network is a list":     {"network: []\n", 1, "mapping"},
		"only comments":         {"# nothing\n", 1, "mapping"},
		"switched off":          {"config: disabled\n", 1, "version"},
		"tab":                   {"version: 2\nethernets:\n\ta: b\n", 3, "tab"},
		"second document":       {"version: 2\n---\nversion: 2\n", 2, "second"},
		"byte order mark":       {"\xef\xbb\xbfversion: 2\n", 1, "byte order mark"},
		"template without need": {"version: 2\na: {{ x }}\n", 2, "template"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte("#cloud-config\n"), NetworkConfig: []byte(c.doc)}, cloudinit.AgentInstall)
			if c.says == "" {
				require.NoError(t, err)
				assert.Equal(t, c.doc, string(out.NetworkConfig), "passed on as it is")
				return
			}
			var fault *cloudinit.Error
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, "networkConfig", fault.Field)
			assert.Contains(t, fault.Msg, c.says)
			assert.Equal(t, c.line, fault.Line)
		})
	}
}

func TestMetaData(t *testing.T) {
	for _, id := range []string{"1e5", "a-uuid", "quo\"te: {}"} {
		doc := cloudinit.MetaData(id, "host")
		assert.Contains(t, string(doc), `"instance-id":"`, "an unquoted 1e5 would be a number")
		var got map[string]string
		require.NoError(t, yaml.Unmarshal(doc, &got))
		assert.Equal(t, map[string]string{"instance-id": id, "local-hostname": "host"}, got)
	}
}
