package conn

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/proxyard/proxyard/providers"
)

// firstState starts a host and returns its state after the first attempt.
func firstState(t *testing.T, cfg Config) State {
	t.Helper()
	cfg.Name = "kvm1"
	if cfg.Limits == (Limits{}) {
		cfg.Limits = Limits{Connect: 5 * time.Second, BackoffMin: time.Hour, BackoffMax: time.Hour}
	}
	h, err := New(cfg)
	require.NoError(t, err)
	defer h.Close()
	ev := make(events, 10)
	h.Start(ev.note)
	<-ev
	return h.State()
}

func TestSSH(t *testing.T) {
	clientKey, clientPEM := newKey(t)
	ed, _ := newKey(t)
	ec := newECDSA(t)
	other, otherPEM := newKey(t)
	tests := map[string]struct {
		reason  string
		keys    []ssh.Signer // of the server
		known   []ssh.Signer
		pem     []byte
		query   string
		server  func(*sshd)
		kind    providers.Kind
		want    string
		message string
	}{
		"ed25519 known of two":  {reason: "x/crypto prefers ecdsa; the known key decides", keys: []ssh.Signer{ed, ec}, known: []ssh.Signer{ed}},
		"ecdsa known of two":    {reason: "and the other way round", keys: []ssh.Signer{ed, ec}, known: []ssh.Signer{ec}},
		"rotating":              {reason: "the old and the new key are listed", keys: []ssh.Signer{ed}, known: []ssh.Signer{other, ed}},
		"modular daemon":        {reason: "the second default socket", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, server: func(s *sshd) { s.paths = []string{socketVirtqemud} }},
		"own socket":            {reason: "?socket=", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, query: "?socket=/srv/sock", server: func(s *sshd) { s.paths = []string{"/srv/sock"} }},
		"changed key":           {reason: "an attacker, or a new host", keys: []ssh.Signer{ed}, known: []ssh.Signer{other}, kind: providers.Denied, want: ReasonHostKeyChanged, message: ssh.FingerprintSHA256(ed.PublicKey())},
		"key of unlisted type":  {reason: "not the same as changed", keys: []ssh.Signer{ec}, known: []ssh.Signer{ed}, kind: providers.Denied, want: ReasonHostKeyUnknown},
		"unaccepted client key": {reason: "authorized_keys lacks it", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, pem: otherPEM, kind: providers.Denied, want: ReasonAuthenticationFailed, message: "authorized_keys"},
		"no socket":             {reason: "libvirt is not there", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, server: func(s *sshd) { s.paths, s.listening = nil, 1 }, kind: providers.Unreachable, want: ReasonSocketMissing, message: "?socket="},
		"forwarding prohibited": {reason: "OpenSSH says the same as for no socket", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, server: func(s *sshd) { s.prohibited.Store(true) }, kind: providers.Denied, want: ReasonStreamForwardingForbidden, message: "AllowStreamLocalForwarding"},
		"no way to tell":        {reason: "no commands for this key; both are named", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, server: func(s *sshd) { s.prohibited.Store(true); s.listening = -1 }, kind: providers.Unreachable, want: ReasonSocketMissing, message: "AllowStreamLocalForwarding"},
		"stalls before banner":  {reason: "x/crypto has no time limit here", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, server: func(s *sshd) { s.stall = "banner" }, kind: providers.Unreachable, want: ReasonConnectTimeout, message: "ssh to root@"},
		"stalls after banner":   {reason: "nor here", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, server: func(s *sshd) { s.stall = "after banner" }, kind: providers.Unreachable, want: ReasonConnectTimeout, message: "ssh to root@"},
		"stalls after login":    {reason: "the socket is never opened", keys: []ssh.Signer{ed}, known: []ssh.Signer{ed}, server: func(s *sshd) { s.stall = "after login" }, kind: providers.Unreachable, want: ReasonConnectTimeout, message: "open /var/run"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &daemon{}
			s := newSSHD(t, d, clientKey.PublicKey(), tt.server, tt.keys...)
			limits := Limits{Connect: 5 * time.Second, BackoffMin: time.Hour, BackoffMax: time.Hour}
			if s.stall != "" {
				limits.Connect = 300 * time.Millisecond
			}
			if tt.pem == nil {
				tt.pem = clientPEM
			}
			began := time.Now()
			state := firstState(t, Config{
				URI: "qemu+ssh://" + s.addr + "/system" + tt.query, Limits: limits,
				Credentials: map[string][]byte{CredentialSSHKey: tt.pem, CredentialKnownHosts: known(s.addr, tt.known...)},
			})
			if tt.want == "" {
				require.NoError(t, state.Err, tt.reason)
			} else {
				requireReason(t, state.Err, tt.kind, tt.want)
				assert.ErrorContains(t, state.Err, tt.message)
			}
			if s.stall != "" {
				assert.Less(t, time.Since(began), limits.Connect+time.Second)
			}
			require.Eventually(t, func() bool { return s.live.Load() == 0 }, time.Second, time.Millisecond, "the login is closed with the host")
		})
	}
}

func TestSSHUnknownHost(t *testing.T) {
	clientKey, clientPEM := newKey(t)
	host, _ := newKey(t)
	s := newSSHD(t, &daemon{}, clientKey.PublicKey(), nil, host)
	state := firstState(t, Config{
		URI:         "qemu+ssh://" + s.addr + "/system",
		Credentials: map[string][]byte{CredentialSSHKey: clientPEM, CredentialKnownHosts: known("elsewhere:22", host)},
	})
	requireReason(t, state.Err, providers.Denied, ReasonHostKeyUnknown)
	assert.ErrorContains(t, state.Err, ssh.FingerprintSHA256(host.PublicKey()))
}

func TestSSHJump(t *testing.T) {
	clientKey, clientPEM := newKey(t)
	key1, _ := newKey(t)
	key2, _ := newKey(t)
	d := &daemon{}
	target := newSSHD(t, d, clientKey.PublicKey(), nil, key1)
	bastion := newSSHD(t, d, clientKey.PublicKey(), nil, key2)
	cfg := Config{
		URI:         "qemu+ssh://" + target.addr + "/system?jump=hop@" + bastion.addr,
		Credentials: map[string][]byte{CredentialSSHKey: clientPEM, CredentialKnownHosts: append(known(target.addr, key1), known(bastion.addr, key2)...)},
	}
	require.NoError(t, firstState(t, cfg).Err)
	require.Eventually(t, func() bool { return bastion.live.Load()+target.live.Load() == 0 }, time.Second, time.Millisecond)

	cfg.Credentials[CredentialKnownHosts] = known(target.addr, key1)
	state := firstState(t, cfg)
	requireReason(t, state.Err, providers.Denied, ReasonHostKeyUnknown)
	assert.ErrorContains(t, state.Err, knownhosts.Normalize(bastion.addr), "the jump host's key is checked too")

	cfg.Credentials[CredentialKnownHosts] = append(known(target.addr, key2), known(bastion.addr, key2)...)
	requireReason(t, firstState(t, cfg).Err, providers.Denied, ReasonHostKeyChanged)

	bastion.prohibited.Store(true)
	state = firstState(t, cfg)
	requireReason(t, state.Err, providers.Denied, ReasonStreamForwardingForbidden)
	assert.ErrorContains(t, state.Err, "AllowTcpForwarding")
}

func TestSSHHostCertificate(t *testing.T) {
	clientKey, clientPEM := newKey(t)
	authority, _ := newKey(t)
	host, _ := newKey(t)
	cert := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"127.0.0.1"}, ValidBefore: ssh.CertTimeInfinity}
	require.NoError(t, cert.SignCert(rand.Reader, authority))
	signer, err := ssh.NewCertSigner(cert, host)
	require.NoError(t, err)
	s := newSSHD(t, &daemon{}, clientKey.PublicKey(), nil, signer)
	creds := map[string][]byte{CredentialSSHKey: clientPEM, CredentialKnownHosts: append([]byte("@cert-authority "), known(s.addr, authority)...)}
	require.NoError(t, firstState(t, Config{URI: "qemu+ssh://" + s.addr + "/system", Credentials: creds}).Err)

	creds[CredentialKnownHosts] = append([]byte("@cert-authority "), known(s.addr, host)...)
	requireReason(t, firstState(t, Config{URI: "qemu+ssh://" + s.addr + "/system", Credentials: creds}).Err, providers.Denied, ReasonHostKeyUnknown)
}

func TestSSHReconnectsLeaveNothingBehind(t *testing.T) {
	clientKey, clientPEM := newKey(t)
	hostKey, _ := newKey(t)
	d := &daemon{}
	s := newSSHD(t, d, clientKey.PublicKey(), func(s *sshd) { s.listening = 1 }, hostKey)
	cycles := func(n int, socket string) {
		for range n {
			firstState(t, Config{
				URI:         "qemu+ssh://" + s.addr + "/system?socket=" + socket,
				Credentials: map[string][]byte{CredentialSSHKey: clientPEM, CredentialKnownHosts: known(s.addr, hostKey)},
			})
		}
		require.Eventually(t, func() bool { return s.live.Load() == 0 }, time.Second, time.Millisecond, "logins")
	}
	cycles(2, socketLibvirtd)
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	cycles(25, socketLibvirtd)
	cycles(25, "/nowhere")
	const asking = 2 // goroutines of Eventually itself
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+asking }, time.Second, time.Millisecond, "goroutines")
	assert.LessOrEqual(t, descriptors(t), files)
}

func descriptors(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(files)
}

func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	d := &daemon{}
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go d.serve(c)
		}
	}()
	require.NoError(t, firstState(t, Config{URI: "qemu+unix:///system?socket=" + dir + "/sock"}).Err)
	state := firstState(t, Config{URI: "qemu+unix:///system?socket=" + dir + "/none"})
	requireReason(t, state.Err, providers.Unreachable, ReasonSocketMissing)
	assert.ErrorContains(t, state.Err, dir+"/none")
	assert.ErrorContains(t, state.Err, "?socket=")
}

func TestUnixTriesBothDaemons(t *testing.T) {
	var tried []string
	d := unixDialer{paths: []string{socketLibvirtd, socketVirtqemud}, open: func(_ context.Context, network, addr string) (net.Conn, error) {
		tried = append(tried, network+" "+addr)
		if addr == socketLibvirtd {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", os.ErrNotExist)}
		}
		return &recorder{}, nil
	}}
	_, err := d.dial(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"unix " + socketLibvirtd, "unix " + socketVirtqemud}, tried)
}

func TestResolveAndRefuse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := l.Addr().String()
	require.NoError(t, l.Close())
	requireReason(t, firstState(t, Config{URI: "qemu+tcp://" + free + "/system"}).Err, providers.Unreachable, ReasonConnectionRefused)
	requireReason(t, firstState(t, Config{URI: "qemu+tcp://kvm1.invalid/system", Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "kvm1.invalid", IsNotFound: true}}
	}}).Err, providers.Unreachable, ReasonResolveFailed)
}
