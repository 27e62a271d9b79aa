package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/proxyard/proxyard/providers"
)

// dialer opens a byte stream to a libvirt daemon. The stream's Close must release everything that dial made and must not
// wait for the peer. dial returns when ctx ends.
type dialer interface {
	dial(ctx context.Context) (net.Conn, error)
}

// dialFunc opens a plain socket.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// newDialer validates the credentials for the transport.
//
// Errors: Invalid with reason CredentialsInvalid. They name the key of the Secret and never its content.
func newDialer(e endpoint, cfg Config) (dialer, error) {
	switch e.transport {
	case "ssh":
		return newSSHDialer(e, cfg)
	case "tls":
		return newTLSDialer(e, cfg)
	case "tcp":
		return tcpDialer{addr: e.addr, open: cfg.Dial}, nil
	default:
		return unixDialer{paths: e.sockets, open: cfg.Dial}, nil
	}
}

func credentialError(key, format string, args ...any) error {
	return &providers.Error{Kind: providers.Invalid, Reason: ReasonCredentialsInvalid, Msg: fmt.Sprintf("credentials: %s: ", key) + fmt.Sprintf(format, args...)}
}

type tcpDialer struct {
	addr string
	open dialFunc
}

func (d tcpDialer) dial(ctx context.Context) (net.Conn, error) {
	c, err := d.open(ctx, "tcp", d.addr)
	if err != nil {
		return nil, dialError("connect to "+d.addr, err)
	}
	return c, nil
}

type unixDialer struct {
	paths []string
	open  dialFunc
}

func (d unixDialer) dial(ctx context.Context) (net.Conn, error) {
	var first error
	for _, path := range d.paths {
		c, err := d.open(ctx, "unix", path)
		if err == nil {
			return c, nil
		}
		if first == nil || !errors.Is(err, os.ErrNotExist) {
			first = dialError("connect to "+path, err)
		}
	}
	return nil, first
}

// dialError classifies what keeps a connection from being opened; step says what was tried, where.
func dialError(step string, err error) error {
	var own *providers.Error
	if errors.As(err, &own) {
		return err
	}
	kind, reason, hint := dialVerdict(err)
	if hint != "" {
		step += ": " + hint
	}
	return &providers.Error{Kind: kind, Reason: reason, Msg: step, Err: err}
}

func dialVerdict(err error) (kind providers.Kind, reason, hint string) {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns) && !dns.IsTimeout:
		return providers.Unreachable, ReasonResolveFailed, "the name cannot be resolved"
	case errors.Is(err, context.Canceled):
		return providers.Unreachable, ReasonClosed, ""
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return providers.Unreachable, ReasonConnectTimeout, "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return providers.Unreachable, ReasonConnectionRefused, "nothing listens there"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return providers.Unreachable, ReasonNoRoute, ""
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return providers.Unreachable, ReasonConnectionLost, "closed by the host"
	}
	for _, verdict := range []func(error) (providers.Kind, string, string){unixVerdict, sshVerdict, tlsVerdict} {
		if kind, reason, hint := verdict(err); reason != "" {
			return kind, reason, hint
		}
	}
	return providers.Unreachable, ReasonConnectFailed, ""
}

func unixVerdict(err error) (kind providers.Kind, reason, hint string) {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return providers.Unreachable, ReasonSocketMissing, "no such socket; say where it is with ?socket=/path"
	case errors.Is(err, os.ErrPermission):
		return providers.Denied, ReasonSocketDenied, ""
	}
	return 0, "", ""
}

func tlsVerdict(err error) (providers.Kind, string, string) {
	var alert tls.AlertError
	var op *net.OpError
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &verify), errors.As(err, &authority):
		return providers.Denied, ReasonServerCertificateInvalid, "the host's certificate is not valid for this name and ca.crt"
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return providers.Denied, ReasonAuthenticationFailed, "the host refused the client certificate"
	case errors.As(err, &record):
		return providers.Unreachable, ReasonTLSHandshakeFailed, "the peer does not speak TLS"
	}
	return 0, "", ""
}

func sshVerdict(err error) (providers.Kind, string, string) {
	var negotiation *ssh.AlgorithmNegotiationError
	var channel *ssh.OpenChannelError
	switch {
	case errors.As(err, &negotiation):
		return providers.Denied, ReasonHostKeyUnknown, "the host has no host key of a type that known_hosts lists for it, or no other algorithm in common"
	case errors.As(err, &channel) && channel.Reason == ssh.Prohibited:
		return providers.Denied, ReasonStreamForwardingForbidden, "sshd forbids it; set AllowStreamLocalForwarding yes (and allow forwarding for this key)"
	case errors.As(err, &channel) && channel.Reason == ssh.ResourceShortage:
		return providers.Unreachable, ReasonSSHSessionsExhausted, ""
	case errors.As(err, &channel):
		return providers.Unreachable, ReasonSocketMissing, "sshd cannot open the socket; say where it is with ?socket=/path"
	}
	return 0, "", ""
}
