package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"

	"github.com/proxyard/proxyard/providers"
)

// tlsDialer speaks libvirt's TLS transport: after the handshake the daemon sends one byte, 1 when it accepts the client's
// certificate.
type tlsDialer struct {
	tcp    tcpDialer
	config *tls.Config
}

func newTLSDialer(e endpoint, cfg Config) (dialer, error) {
	for _, key := range []string{CredentialTLSCert, CredentialTLSKey, CredentialCA} {
		if len(cfg.Credentials[key]) == 0 {
			return nil, credentialError(key, "is missing; qemu+tls needs tls.crt, tls.key and ca.crt")
		}
	}
	cert, err := tls.X509KeyPair(cfg.Credentials[CredentialTLSCert], cfg.Credentials[CredentialTLSKey])
	if err != nil {
		return nil, credentialError(CredentialTLSKey, "tls.crt and tls.key are not a PEM certificate and its key")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cfg.Credentials[CredentialCA]) {
		return nil, credentialError(CredentialCA, "has no PEM certificate")
	}
	return tlsDialer{
		tcp:    tcpDialer{addr: e.addr, open: cfg.Dial},
		config: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: e.host, RootCAs: roots, Certificates: []tls.Certificate{cert}},
	}, nil
}

func (d tlsDialer) dial(ctx context.Context) (net.Conn, error) {
	raw, err := d.tcp.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	c := tls.Client(raw, d.config)
	verdict, err := d.handshake(ctx, c)
	if err == nil && verdict != 1 {
		err = &providers.Error{Kind: providers.Denied, Reason: ReasonAuthenticationFailed, Msg: "tls to " + d.tcp.addr + ": the host refused the client certificate"}
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close()
		return nil, dialError("tls to "+d.tcp.addr, orCause(ctx, err))
	}
	return tlsConn{Conn: c, raw: raw}, nil
}

func (d tlsDialer) handshake(ctx context.Context, c *tls.Conn) (verdict byte, err error) {
	if err := c.HandshakeContext(ctx); err != nil {
		return 0, err
	}
	var b [1]byte
	_, err = io.ReadFull(c, b[:])
	return b[0], err
}

// orCause prefers the end of the context to its consequence, the closed socket.
func orCause(ctx context.Context, err error) error {
	var own *providers.Error
	if cause := context.Cause(ctx); cause != nil && !errors.As(err, &own) {
		return cause
	}
	return err
}

// tlsConn closes the socket below: tls.Conn.Close first sends an alert, which waits for a host that does not read.
type tlsConn struct {
	net.Conn
	raw net.Conn
}

func (c tlsConn) Close() error { return c.raw.Close() }
