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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
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
	defer func() { _ = conn.Close() }()
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
