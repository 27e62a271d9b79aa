package conn

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/proxyard/proxyard/providers"
)

// sshd is an in-process ssh server that forwards to a fake daemon.
type sshd struct {
	daemon *daemon
	addr   string
	config *ssh.ServerConfig
	// paths are the sockets that exist; prohibited refuses all; listening is what /proc/net/unix would say.
	paths      []string
	prohibited atomic.Bool
	listening  int // exit status of grep; -1: commands are refused
	// stall holds the handshake: "banner", "after banner", "after login".
	stall string

	live atomic.Int32
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	return signer, pem.EncodeToMemory(block)
}

func newECDSA(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	return signer
}

// newSSHD starts a server with these host keys that lets the client key in.
func newSSHD(t *testing.T, d *daemon, client ssh.PublicKey, change func(*sshd), hostKeys ...ssh.Signer) *sshd {
	t.Helper()
	s := &sshd{daemon: d, paths: []string{socketLibvirtd}, config: &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !sameKey(key, client) {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}}
	for _, k := range hostKeys {
		s.config.AddHostKey(k)
	}
	if change != nil {
		change(s)
	}
	s.addr = peer(t, s.serve)
	return s
}

func (s *sshd) serve(raw net.Conn) {
	s.live.Add(1)
	defer s.live.Add(-1)
	switch s.stall {
	case "after banner":
		_, _ = raw.Write([]byte("SSH-2.0-OpenSSH_9.2p1\r\n"))
		fallthrough
	case "banner":
		_, _ = io.Copy(io.Discard, raw)
		return
	}
	conn, channels, requests, err := ssh.NewServerConn(raw, s.config)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	var wg sync.WaitGroup
	defer wg.Wait()
	for ch := range channels {
		if s.stall != "after login" {
			wg.Go(func() { s.channel(ch) })
		}
	}
}

func (s *sshd) channel(n ssh.NewChannel) {
	var target struct {
		Name string
		Rest []byte `ssh:"rest"`
	}
	_ = ssh.Unmarshal(n.ExtraData(), &target)
	switch n.ChannelType() {
	case "direct-streamlocal@openssh.com":
		s.socket(n, target.Name)
	case "direct-tcpip":
		var port struct {
			Port uint32
			Rest []byte `ssh:"rest"`
		}
		_ = ssh.Unmarshal(target.Rest, &port)
		s.forward(n, net.JoinHostPort(target.Name, strconv.Itoa(int(port.Port))))
	case "session":
		s.session(n)
	default:
		_ = n.Reject(ssh.UnknownChannelType, "")
	}
}

func (s *sshd) socket(n ssh.NewChannel, path string) {
	if s.prohibited.Load() || !strings.Contains(strings.Join(s.paths, "\n"), path) {
		_ = n.Reject(ssh.ConnectionFailed, "open failed") // what OpenSSH says in both cases
		return
	}
	far, _ := s.daemon.dial(context.Background(), "", "")
	pump(n, far)
}

func (s *sshd) forward(n ssh.NewChannel, addr string) {
	if s.prohibited.Load() {
		_ = n.Reject(ssh.Prohibited, "open failed")
		return
	}
	far, err := net.Dial("tcp", addr)
	if err != nil {
		_ = n.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	pump(n, far)
}

func pump(n ssh.NewChannel, far net.Conn) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	go func() {
		_, _ = io.Copy(ch, far)
		_ = ch.Close()
	}()
	_, _ = io.Copy(far, ch)
	_ = far.Close()
}

func (s *sshd) session(n ssh.NewChannel) {
	if s.listening < 0 {
		_ = n.Reject(ssh.Prohibited, "no sessions")
		return
	}
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	for r := range requests {
		_ = r.Reply(r.Type == "exec", nil)
		if r.Type == "exec" {
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(s.listening)}))
			_ = ch.Close()
		}
	}
}

// known renders known_hosts lines.
func known(addr string, keys ...ssh.Signer) []byte {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(knownhosts.Line([]string{knownhosts.Normalize(addr)}, k.PublicKey()) + "\n")
	}
	return []byte(b.String())
}

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
			state := firstState(t, Config{URI: "qemu+ssh://" + s.addr + "/system" + tt.query, Limits: limits,
				Credentials: map[string][]byte{CredentialSSHKey: tt.pem, CredentialKnownHosts: known(s.addr, tt.known...)}})
			if tt.want == "" {
				require.NoError(t, state.Err, tt.reason)
			} else {
				requireReason(t, state.Err, tt.kind, tt.want)
				assert.ErrorContains(t, state.Err, tt.message)
			}
			if s.stall != "" {
				assert.Less(t, time.Since(began), limits.Connect+100*time.Millisecond)
			}
			require.Eventually(t, func() bool { return s.live.Load() == 0 }, time.Second, time.Millisecond, "the login is closed with the host")
		})
	}
}

func TestSSHUnknownHost(t *testing.T) {
	clientKey, clientPEM := newKey(t)
	host, _ := newKey(t)
	s := newSSHD(t, &daemon{}, clientKey.PublicKey(), nil, host)
	state := firstState(t, Config{URI: "qemu+ssh://" + s.addr + "/system",
		Credentials: map[string][]byte{CredentialSSHKey: clientPEM, CredentialKnownHosts: known("elsewhere:22", host)}})
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
	cfg := Config{URI: "qemu+ssh://" + target.addr + "/system?jump=hop@" + bastion.addr,
		Credentials: map[string][]byte{CredentialSSHKey: clientPEM, CredentialKnownHosts: append(known(target.addr, key1), known(bastion.addr, key2)...)}}
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
			firstState(t, Config{URI: "qemu+ssh://" + s.addr + "/system?socket=" + socket,
				Credentials: map[string][]byte{CredentialSSHKey: clientPEM, CredentialKnownHosts: known(s.addr, hostKey)}})
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
	defer l.Close()
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
