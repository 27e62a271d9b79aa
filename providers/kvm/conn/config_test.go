package conn

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/proxyard/proxyard/providers"
)

func TestParseURI(t *testing.T) {
	defaults := []string{socketLibvirtd, socketVirtqemud}
	tests := map[string]struct {
		reason string
		uri    string
		want   endpoint
		err    string
	}{
		"ssh":         {"all parts", "qemu+ssh://admin@10.0.0.11:2222/system", endpoint{transport: "ssh", driver: "qemu:///system", user: "admin", host: "10.0.0.11", addr: "10.0.0.11:2222", sockets: defaults}, ""},
		"ssh default": {"root and port 22", "qemu+ssh://kvm1/system", endpoint{transport: "ssh", driver: "qemu:///system", user: "root", host: "kvm1", addr: "kvm1:22", sockets: defaults}, ""},
		"ssh IPv6":    {"brackets", "qemu+ssh://root@[fd00::1]:22/system", endpoint{transport: "ssh", driver: "qemu:///system", user: "root", host: "fd00::1", addr: "[fd00::1]:22", sockets: defaults}, ""},
		"ssh socket":  {"another socket", "qemu+ssh://kvm1/system?socket=/srv/s", endpoint{transport: "ssh", driver: "qemu:///system", user: "root", host: "kvm1", addr: "kvm1:22", sockets: []string{"/srv/s"}}, ""},
		"ssh jump":    {"user of the jump host", "qemu+ssh://u@kvm1/system?jump=j@[fd00::2]:2222", endpoint{transport: "ssh", driver: "qemu:///system", user: "u", host: "kvm1", addr: "kvm1:22", sockets: defaults, jump: &hop{"j", "[fd00::2]:2222"}}, ""},
		"jump short":  {"same user, port 22", "qemu+ssh://u@kvm1/system?jump=bastion", endpoint{transport: "ssh", driver: "qemu:///system", user: "u", host: "kvm1", addr: "kvm1:22", sockets: defaults, jump: &hop{"u", "bastion:22"}}, ""},
		"tcp":         {"libvirt's port", "qemu+tcp://kvm1/system", endpoint{transport: "tcp", driver: "qemu:///system", host: "kvm1", addr: "kvm1:16509"}, ""},
		"tls":         {"libvirt's port", "qemu+tls://kvm1/session", endpoint{transport: "tls", driver: "qemu:///session", host: "kvm1", addr: "kvm1:16514"}, ""},
		"unix":        {"no host", "qemu+unix:///system", endpoint{transport: "unix", driver: "qemu:///system", sockets: defaults}, ""},

		"no transport":  {"would be local", "qemu:///system", endpoint{}, "scheme"},
		"other driver":  {"only qemu", "xen+ssh://kvm1/", endpoint{}, "scheme"},
		"libssh":        {"not ours", "qemu+libssh://kvm1/system", endpoint{}, "scheme"},
		"garbage":       {"no URI", "qemu+ssh://\x00", endpoint{}, "not a URI"},
		"password":      {"belongs into a Secret", "qemu+ssh://root:hunter2@kvm1/system", endpoint{}, "password"},
		"password port": {"net/url would repeat it", "qemu+ssh://root:hunter2/x@kvm1/system", endpoint{}, "not a URI"},
		"no host":       {"nothing to reach", "qemu+ssh:///system", endpoint{}, "no host"},
		"unix host":     {"a mix-up", "qemu+unix://kvm1/system", endpoint{}, "no host"},
		"path":          {"neither", "qemu+ssh://kvm1/sys", endpoint{}, "/sys"},
		"unknown query": {"silently ignored would surprise", "qemu+ssh://kvm1/system?keyfile=/root/.ssh/id", endpoint{}, "keyfile"},
		"relative":      {"relative to what", "qemu+ssh://kvm1/system?socket=s", endpoint{}, "absolute"},
		"tcp socket":    {"cannot be", "qemu+tcp://kvm1/system?socket=/s", endpoint{}, "socket"},
		"jump password": {"never", "qemu+ssh://kvm1/system?jump=a:hunter2@b", endpoint{}, "password"},
		"jump path":     {"no URI", "qemu+ssh://kvm1/system?jump=ssh://b", endpoint{}, "jump"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseURI(tt.uri)
			if tt.err == "" {
				require.NoError(t, err, tt.reason)
				assert.Equal(t, tt.want, got)
				return
			}
			requireReason(t, err, providers.Invalid, ReasonInvalidURI)
			assert.ErrorContains(t, err, tt.err, tt.reason)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestCredentials(t *testing.T) {
	signer, plain := newKey(t)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("open sesame"))
	require.NoError(t, err)
	locked := pem.EncodeToMemory(block)
	hosts := known("kvm1:22", signer)
	tests := map[string]struct {
		reason, uri string
		creds       map[string][]byte
		err         string
	}{
		"plain key":        {"usual", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: plain, CredentialKnownHosts: hosts}, ""},
		"locked key":       {"with its passphrase", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: locked, CredentialSSHPassphrase: []byte("open sesame"), CredentialKnownHosts: hosts}, ""},
		"no passphrase":    {"cannot be opened", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: locked, CredentialKnownHosts: hosts}, CredentialSSHPassphrase},
		"wrong passphrase": {"cannot be opened", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: locked, CredentialSSHPassphrase: []byte("x"), CredentialKnownHosts: hosts}, CredentialSSHPassphrase},
		"no key":           {"no fallback to anything", "qemu+ssh://kvm1/system", map[string][]byte{CredentialKnownHosts: hosts}, CredentialSSHKey},
		"public key":       {"a usual mistake", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: ssh.MarshalAuthorizedKey(signer.PublicKey()), CredentialKnownHosts: hosts}, CredentialSSHKey},
		"no known_hosts":   {"no trust on first use", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: plain}, CredentialKnownHosts},
		"only comments":    {"no key in it", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: plain, CredentialKnownHosts: []byte("# none\n\n")}, CredentialKnownHosts},
		"garbage line":     {"names the line", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: plain, CredentialKnownHosts: append([]byte("# c\ngarbage\n"), hosts...)}, "line 2"},
		"unknown marker":   {"would be skipped silently", "qemu+ssh://kvm1/system", map[string][]byte{CredentialSSHKey: plain, CredentialKnownHosts: append([]byte("@trusted "), hosts...)}, "@trusted"},
		"tls nothing":      {"three are needed", "qemu+tls://kvm1/system", nil, CredentialTLSCert},
		"tls garbage":      {"not PEM", "qemu+tls://kvm1/system", map[string][]byte{CredentialTLSCert: []byte("x"), CredentialTLSKey: []byte("y"), CredentialCA: []byte("z")}, CredentialTLSKey},
		"tcp":              {"needs none", "qemu+tcp://kvm1/system", nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := New(Config{Name: "kvm1", URI: tt.uri, Credentials: tt.creds})
			if tt.err == "" {
				require.NoError(t, err, tt.reason)
				h.Close()
				return
			}
			requireReason(t, err, providers.Invalid, ReasonCredentialsInvalid)
			assert.ErrorContains(t, err, tt.err, tt.reason)
			assert.ErrorContains(t, err, "host kvm1: ")
			assert.NotContains(t, err.Error(), "sesame")
		})
	}
}

func TestKnownHosts(t *testing.T) {
	a, _ := newKey(t)
	b, _ := newKey(t)
	ec := newECDSA(t)
	line := func(hosts string, k ssh.Signer) string {
		return hosts + " " + string(ssh.MarshalAuthorizedKey(k.PublicKey()))
	}
	tests := map[string]struct {
		reason, text, addr string
		key                ssh.Signer
		want               string // reason of the error
	}{
		"name":             {"port 22 has no brackets", line("kvm1", a), "kvm1:22", a, ""},
		"name, other port": {"a name alone means port 22", line("kvm1", a), "kvm1:2222", a, ReasonHostKeyUnknown},
		"with port":        {"bracketed", line("[kvm1]:2222", a), "kvm1:2222", a, ""},
		"explicit 22":      {"the same as without", line("[kvm1]:22", a), "kvm1:22", a, ""},
		"list":             {"names by comma", line("x,kvm1,y", a), "kvm1:22", a, ""},
		"upper case":       {"names have no case", line("KVM1", a), "kvm1:22", a, ""},
		"IPv6":             {"no brackets at port 22", line("fd00::1", a), "[fd00::1]:22", a, ""},
		"IPv6 port":        {"brackets", line("[fd00::1]:2222", a), "[fd00::1]:2222", a, ""},
		"hashed":           {"ssh-keyscan -H", line(knownhosts.HashHostname("kvm1"), a), "kvm1:22", a, ""},
		"hashed port":      {"the hash is over the brackets", line(knownhosts.HashHostname("[kvm1]:2222"), a), "kvm1:2222", a, ""},
		"hashed other":     {"of another host", line(knownhosts.HashHostname("kvm2"), a), "kvm1:22", a, ReasonHostKeyUnknown},
		"star":             {"wildcard", line("*.lab", a), "kvm1.lab:22", a, ""},
		"question mark":    {"one character", line("kvm?", a), "kvm1:22", a, ""},
		"class":            {"is no wildcard of known_hosts", line("kvm[12]", a), "kvm1:22", a, ReasonHostKeyUnknown},
		"negated":          {"excludes", line("*.lab,!kvm1.lab", a), "kvm1.lab:22", a, ReasonHostKeyUnknown},
		"changed":          {"same type, other key", line("kvm1", a), "kvm1:22", b, ReasonHostKeyChanged},
		"second line":      {"one of them fits", line("kvm1", b) + line("kvm1", a), "kvm1:22", a, ""},
		"other type":       {"not changed: unknown", line("kvm1", ec), "kvm1:22", a, ReasonHostKeyUnknown},
		"revoked":          {"though it is listed as well", line("kvm1", a) + "@revoked " + line("*", a), "kvm1:22", a, ReasonHostKeyRevoked},
		"authority as key": {"an authority's key is no host key", "@cert-authority " + line("kvm1", a), "kvm1:22", a, ReasonHostKeyUnknown},
		"crlf":             {"edited on another system", "# c\r\n\r\n" + line("kvm1", a), "kvm1:22", a, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			keys, err := parseKnownHosts([]byte(tt.text))
			require.NoError(t, err)
			err = keys.check(tt.addr, nil, tt.key.PublicKey())
			if tt.want == "" {
				require.NoError(t, err, tt.reason)
				assert.Contains(t, keys.algorithms(tt.addr), tt.key.PublicKey().Type())
				return
			}
			requireReason(t, err, providers.Denied, tt.want)
		})
	}
}

func TestBackoff(t *testing.T) {
	l := Limits{}.withDefaults()
	tests := map[string]struct {
		reason string
		n      int
		random float64
		want   time.Duration
	}{
		"first, least":   {"half of the minimum at least", 1, 0, 125 * time.Millisecond},
		"first, most":    {"the minimum at most", 1, 1, 250 * time.Millisecond},
		"second":         {"doubles", 2, 1, 500 * time.Millisecond},
		"eighth":         {"up to the maximum", 8, 1, 30 * time.Second},
		"ten thousandth": {"does not overflow", 10_000, 0.5, 22500 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, backoff(tt.n, l, tt.random), tt.reason) })
	}
}
