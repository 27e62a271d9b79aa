package squidconf_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/proxyard/proxyard/pkg/cloudinit"
	"github.com/proxyard/proxyard/pkg/squidconf"
)

var update = flag.Bool("update", false, "write the golden files anew")

func plain() squidconf.Config {
	return squidconf.Config{Hostname: "px-1.lab", Port: 3128, AllowedClients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
}

func full() squidconf.Config {
	c := plain()
	c.Port = 8080
	c.AllowedClients = append(c.AllowedClients, netip.MustParsePrefix("192.168.7.9/24"), netip.MustParsePrefix("fd00:1::/48"))
	c.User = &squidconf.User{Name: "fleet user", Password: `p:a"s's \$1 ü#`}
	c.ExtraTargets = []string{"10.77.0.1:80", "[fd00::1]:8443", "Probe.lan:8080"}
	return c
}

func TestCloudConfigGolden(t *testing.T) {
	for name, c := range map[string]squidconf.Config{"plain": plain(), "full": full()} {
		t.Run(name, func(t *testing.T) {
			got, err := squidconf.CloudConfig(c, []byte("a-uid"))
			require.NoError(t, err)
			path := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got))
		})
	}
}

func TestCloudConfigIsAcceptedWithTheAgent(t *testing.T) {
	config, err := squidconf.CloudConfig(full(), []byte("a-uid"))
	require.NoError(t, err)
	out, err := cloudinit.Prepare(cloudinit.Documents{UserData: config}, cloudinit.AgentInstall)
	require.NoError(t, err)
	var got struct {
		Packages []string `yaml:"packages"`
	}
	require.NoError(t, yaml.Unmarshal(out.UserData, &got))
	assert.Equal(t, []string{"squid", "qemu-guest-agent"}, got.Packages)
}

func TestCloudConfigSalt(t *testing.T) {
	once, err := squidconf.CloudConfig(full(), []byte("a"))
	require.NoError(t, err)
	again, err := squidconf.CloudConfig(full(), []byte("a"))
	require.NoError(t, err)
	other, err := squidconf.CloudConfig(full(), []byte("b"))
	require.NoError(t, err)
	assert.Equal(t, string(once), string(again), "a seed must be reproducible")
	assert.NotEqual(t, string(once), string(other), "two machines with one password must not share a hash")
	assert.NotContains(t, string(once), full().User.Password)
}

func TestCloudConfigRefuses(t *testing.T) {
	clients := func(s ...string) func(*squidconf.Config) {
		return func(c *squidconf.Config) {
			c.AllowedClients = nil
			for _, p := range s {
				c.AllowedClients = append(c.AllowedClients, netip.MustParsePrefix(p))
			}
		}
	}
	user := func(name, password string) func(*squidconf.Config) {
		return func(c *squidconf.Config) { c.User = &squidconf.User{Name: name, Password: password} }
	}
	target := func(s string) func(*squidconf.Config) {
		return func(c *squidconf.Config) { c.ExtraTargets = []string{s} }
	}
	cases := map[string]struct {
		change func(*squidconf.Config)
		says   string
		reason string
	}{
		"no clients":           {clients(), "allowedClients", "no list must never mean everybody"},
		"all of IPv4":          {clients("10.0.0.0/8", "0.0.0.0/0"), "allowedClients", "an open proxy"},
		"too much private":     {clients("fc00::/7"), "allowedClients", "wider than one organisation's own"},
		"all of IPv6":          {clients("::/0"), "allowedClients", "an open proxy"},
		"half of IPv4":         {clients("0.0.0.0/1", "128.0.0.0/1"), "allowedClients", "an open proxy in two parts"},
		"IPv4 as IPv6":         {clients("::ffff:0.0.0.0/96"), "allowedClients", "squid reads it as all of IPv4"},
		"zero prefix":          {func(c *squidconf.Config) { c.AllowedClients = []netip.Prefix{{}} }, "allowedClients", "a parse error that was ignored"},
		"no hostname":          {func(c *squidconf.Config) { c.Hostname = "" }, "hostname", "squid would not start"},
		"line in the hostname": {func(c *squidconf.Config) { c.Hostname = "a\nhttp_access allow all" }, "hostname", "injection"},
		"port":                 {func(c *squidconf.Config) { c.Port = 65536 }, "port", "squid would not start"},
		"colon in the name":    {user("a:b", "x"), "username", "the file's separator"},
		"comment as name":      {user("#a", "x"), "username", "the helper skips the line"},
		"no name":              {user("", "x"), "username", "the helper skips the line"},
		"no password":          {user("a", ""), "password", "an empty password is a mistake"},
		"line in the password": {user("a", "x\n"), "password", "echo adds it, and no client can send it"},
		"NUL in the password":  {user("a", "x\x00y"), "password", "crypt stops there"},
		"target without port":  {target("10.0.0.1"), "extraTargets", "every port would be open"},
		"target port 0":        {target("10.0.0.1:0"), "extraTargets", "no port"},
		"target loopback":      {target("127.0.0.1:80"), "extraTargets", "the machine itself"},
		"target metadata":      {target("169.254.169.254:80"), "extraTargets", "metadata"},
		"target injection":     {target("a all\n:80"), "extraTargets", "injection"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := plain()
			c.change(&config)
			_, err := squidconf.CloudConfig(config, []byte("salt"))
			require.ErrorContains(t, err, c.says, c.reason)
			if config.User != nil && strings.TrimSpace(config.User.Password) != "" {
				assert.NotContains(t, err.Error(), config.User.Password)
			}
		})
	}
	_, err := squidconf.CloudConfig(full(), nil)
	require.ErrorContains(t, err, "salt", "without one, equal passwords have equal hashes")
}

func TestPrivateNetworksMayBeWide(t *testing.T) {
	c := plain()
	c.AllowedClients = []netip.Prefix{netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("10.0.0.0/8")}
	out, err := squidconf.CloudConfig(c, []byte("salt of at least 16 bytes"))
	require.NoError(t, err)
	require.Contains(t, string(out), "fd00::/8", "the API's own example")
}
