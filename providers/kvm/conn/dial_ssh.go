package conn

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/proxyard/proxyard/providers"
)

// sshDialer opens the daemon's socket through sshd (direct-streamlocal). No file is read here, and nothing
// runs on the host but one grep, to tell a forbidden forwarding from a missing socket when opening it failed (explain).
type sshDialer struct {
	tcp    tcpDialer
	hops   []hop // the jump host, if any, then the libvirt host
	paths  []string
	signer ssh.Signer
	known  hostKeys
}

func newSSHDialer(e endpoint, cfg Config) (dialer, error) {
	signer, err := parseKey(cfg.Credentials[CredentialSSHKey], cfg.Credentials[CredentialSSHPassphrase])
	if err != nil {
		return nil, err
	}
	if len(cfg.Credentials[CredentialKnownHosts]) == 0 {
		return nil, credentialError(CredentialKnownHosts, "is missing; put the host's public key there, as ssh-keyscan prints it, after checking it")
	}
	known, err := parseKnownHosts(cfg.Credentials[CredentialKnownHosts])
	if err != nil {
		return nil, credentialError(CredentialKnownHosts, "%v", err)
	}
	d := &sshDialer{paths: e.sockets, signer: signer, known: known}
	if e.jump != nil {
		d.hops = append(d.hops, *e.jump)
	}
	d.hops = append(d.hops, hop{user: e.user, addr: e.addr})
	d.tcp = tcpDialer{addr: d.hops[0].addr, open: cfg.Dial}
	return d, nil
}

func parseKey(pem, passphrase []byte) (ssh.Signer, error) {
	if len(pem) == 0 {
		return nil, credentialError(CredentialSSHKey, "is missing")
	}
	signer, err := ssh.ParsePrivateKey(pem)
	var locked *ssh.PassphraseMissingError
	if err == nil {
		return signer, nil
	}
	if !errors.As(err, &locked) {
		return nil, credentialError(CredentialSSHKey, "is not a private key in OpenSSH or PEM form")
	}
	if len(passphrase) == 0 {
		return nil, credentialError(CredentialSSHPassphrase, "is missing, and the key has a passphrase")
	}
	if signer, err = ssh.ParsePrivateKeyWithPassphrase(pem, passphrase); err != nil {
		return nil, credentialError(CredentialSSHPassphrase, "does not open the key")
	}
	return signer, nil
}

func (d *sshDialer) dial(ctx context.Context) (net.Conn, error) {
	raw, err := d.tcp.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &sshConn{raw: raw, done: make(chan struct{})}
	// Every wait below ends when the socket does.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	err = d.build(c)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, orTimeout(ctx, err)
	}
	go c.keepalive()
	return c, nil
}

// orTimeout keeps the step that an error names and replaces its cause by the end of ctx, when that was the cause.
func orTimeout(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var e *providers.Error
	if cause == nil || !errors.As(err, &e) || e.Err == nil {
		return err
	}
	step, _, _ := strings.Cut(e.Msg, ": ")
	return dialError(step, cause)
}

// build logs in hop after hop and opens the socket on the last.
func (d *sshDialer) build(c *sshConn) error {
	via := c.raw
	for i, hop := range d.hops {
		client, err := d.login(via, hop)
		if err != nil {
			return dialError("ssh to "+hop.user+"@"+hop.addr, err)
		}
		c.clients = append(c.clients, client)
		if i+1 == len(d.hops) {
			break
		}
		if via, err = client.Dial("tcp", d.hops[i+1].addr); err != nil {
			return jumpError(hop.addr, d.hops[i+1].addr, err)
		}
	}
	var err error
	c.Conn, err = d.openSocket(c.clients[len(c.clients)-1])
	return err
}

func (d *sshDialer) login(via net.Conn, to hop) (*ssh.Client, error) {
	conn, channels, requests, err := ssh.NewClientConn(via, to.addr, &ssh.ClientConfig{
		User:              to.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(d.signer)},
		HostKeyCallback:   d.known.check,
		HostKeyAlgorithms: d.known.algorithms(to.addr),
	})
	if err == nil {
		return ssh.NewClient(conn, channels, requests), nil
	}
	var own *providers.Error
	if errors.As(err, &own) { // of the host key check, in words of the handshake
		return nil, own
	}
	// x/crypto has no type for a refused key.
	if strings.Contains(err.Error(), "unable to authenticate") {
		return nil, &providers.Error{
			Kind: providers.Denied, Reason: ReasonAuthenticationFailed, Err: err,
			Msg: "ssh to " + to.user + "@" + to.addr + ": the key is not accepted; check user and authorized_keys",
		}
	}
	if _, reason, _ := dialVerdict(err); reason == ReasonConnectFailed || reason == ReasonConnectionLost {
		return nil, &providers.Error{Kind: providers.Unreachable, Reason: ReasonSSHHandshakeFailed, Err: err, Msg: "ssh to " + to.user + "@" + to.addr}
	}
	return nil, err
}

func jumpError(bastion, target string, err error) error {
	var channel *ssh.OpenChannelError
	if !errors.As(err, &channel) {
		return dialError("connect to "+target+" through "+bastion, err)
	}
	kind, reason, hint := providers.Unreachable, ReasonConnectionRefused, "the jump host cannot reach it"
	if channel.Reason == ssh.Prohibited {
		kind, reason, hint = providers.Denied, ReasonStreamForwardingForbidden, "the jump host forbids it; set AllowTcpForwarding yes there"
	}
	return &providers.Error{Kind: kind, Reason: reason, Msg: "connect to " + target + " through " + bastion + ": " + hint, Err: err}
}

// openSocket takes the first path that the host has; of two failures the one that says most.
func (d *sshDialer) openSocket(client *ssh.Client) (net.Conn, error) {
	var err error
	for _, path := range d.paths {
		var c net.Conn
		if c, err = client.Dial("unix", path); err == nil {
			return c, nil
		}
		var channel *ssh.OpenChannelError
		if !errors.As(err, &channel) || channel.Reason != ssh.ConnectionFailed {
			break
		}
	}
	e := dialError("open "+strings.Join(d.paths, " or ")+" on the host", err)
	var refused *providers.Error
	if errors.As(e, &refused) && refused.Reason == ReasonSocketMissing {
		d.explain(client, refused)
	}
	return nil, e
}

// explain tells a missing socket from forbidden forwarding, for which OpenSSH (seen: 9.2) has one answer. It asks the host's
// kernel whether something is bound to such a socket; where no command may run, the error names both.
func (d *sshDialer) explain(client *ssh.Client, e *providers.Error) {
	const allow = "AllowStreamLocalForwarding yes in sshd_config"
	missing := strings.Join(d.paths, " or ") + " cannot be opened on the host: "
	switch listening, known := d.somebodyListens(client); {
	case !known:
		e.Msg = missing + "either nothing listens there (say where the socket is with ?socket=/path), or sshd forbids it (set " + allow + ")"
	case listening:
		e.Kind, e.Reason, e.Msg = providers.Denied, ReasonStreamForwardingForbidden, missing+"libvirt listens there, but sshd forbids it; set "+allow
	default:
		e.Msg = missing + "nothing seems to listen there; start libvirt, or say where its socket is with ?socket=/path (if it does listen: set " + allow + ")"
	}
}

func (d *sshDialer) somebodyListens(client *ssh.Client) (listening, known bool) {
	command := "grep -qs"
	for _, path := range d.paths {
		if strings.Trim(path, safeInShell) != "" {
			return false, false
		}
		// The kernel knows the path that was bound, which may begin with /run where ours begins with /var/run.
		dir, file := filepath.Split(path)
		command += " -e '/" + filepath.Join(filepath.Base(dir), file) + "$'"
	}
	session, err := client.NewSession()
	if err != nil {
		return false, false
	}
	defer func() { _ = session.Close() }()
	var exit *ssh.ExitError
	switch err = session.Run(command + " /proc/net/unix"); {
	case err == nil:
		return true, true
	case errors.As(err, &exit) && exit.ExitStatus() == 1:
		return false, true
	}
	return false, false
}

const safeInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"

// sshConn is a channel together with everything it stands on.
type sshConn struct {
	net.Conn
	raw     net.Conn
	clients []*ssh.Client
	once    sync.Once
	done    chan struct{}
}

// Close ends the socket first: closing a channel or a client sends a message, which waits for a host that does not read.
func (c *sshConn) Close() error {
	var err error
	c.once.Do(func() {
		close(c.done)
		err = c.raw.Close()
		for _, client := range c.clients {
			_ = client.Close()
		}
	})
	return err
}

// keepalive closes the connection when sshd stops answering; it also keeps firewalls from forgetting an idle one.
func (c *sshConn) keepalive() {
	tick := time.NewTicker(sshKeepalive)
	defer tick.Stop()
	client := c.clients[len(c.clients)-1]
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		late := time.AfterFunc(sshKeepalive, func() { _ = c.Close() })
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			_ = c.Close()
			return
		}
	}
}
