package conn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key, a.pem, _ = a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(t *testing.T, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestTLS(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	_, _, clientCert, clientKey := ca.sign(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	_, _, foreignCert, foreignKey := foreign.sign(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	server := func(c *x509.Certificate) tls.Certificate {
		_, _, cert, key := ca.sign(t, c)
		pair, err := tls.X509KeyPair(cert, key)
		require.NoError(t, err)
		return pair
	}
	right := server(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	wrong := server(&x509.Certificate{DNSNames: []string{"elsewhere"}})

	tests := map[string]struct {
		reason  string
		cert    tls.Certificate
		creds   map[string][]byte
		version uint16
		serve   func(c net.Conn)
		verdict byte
		silent  bool
		kind    providers.Kind
		want    string
	}{
		"accepted":            {reason: "the good case", cert: right, verdict: 1},
		"TLS 1.2":             {reason: "older gnutls", cert: right, version: tls.VersionTLS12, verdict: 1},
		"refused by verdict":  {reason: "libvirt's own list of names (tls_allowed_dn_list)", cert: right, verdict: 0xff, kind: providers.Denied, want: ReasonAuthenticationFailed},
		"refused by alert":    {reason: "the client certificate is of another authority", cert: right, verdict: 1, creds: map[string][]byte{CredentialTLSCert: foreignCert, CredentialTLSKey: foreignKey}, kind: providers.Denied, want: ReasonAuthenticationFailed},
		"no verdict":          {reason: "the library waits for it for ever", cert: right, silent: true, kind: providers.Unreachable, want: ReasonConnectTimeout},
		"wrong server name":   {reason: "another host's certificate", cert: wrong, verdict: 1, kind: providers.Denied, want: ReasonServerCertificateInvalid},
		"unknown authority":   {reason: "ca.crt is another", cert: right, verdict: 1, creds: map[string][]byte{CredentialCA: foreign.pem}, kind: providers.Denied, want: ReasonServerCertificateInvalid},
		"not TLS":             {reason: "the tcp port", serve: func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2p1\r\n")); _, _ = io.Copy(io.Discard, c) }, kind: providers.Unreachable, want: ReasonTLSHandshakeFailed},
		"silent in handshake": {reason: "accepts and says nothing", serve: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, kind: providers.Unreachable, want: ReasonConnectTimeout},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &daemon{}
			pool := x509.NewCertPool()
			pool.AddCert(ca.cert)
			if tt.serve == nil {
				tt.serve = func(raw net.Conn) {
					c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{tt.cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tt.version})
					if c.Handshake() != nil {
						return
					}
					if !tt.silent {
						_, _ = c.Write([]byte{tt.verdict})
					}
					d.serve(c)
				}
			}
			creds := map[string][]byte{CredentialTLSCert: clientCert, CredentialTLSKey: clientKey, CredentialCA: ca.pem}
			for k, v := range tt.creds {
				creds[k] = v
			}
			limit := 5 * time.Second
			if tt.want == ReasonConnectTimeout {
				limit = 300 * time.Millisecond
			}
			began := time.Now()
			state := firstState(t, Config{
				URI: "qemu+tls://" + peer(t, tt.serve) + "/system", Credentials: creds,
				Limits: Limits{Connect: limit, BackoffMin: time.Hour, BackoffMax: time.Hour},
			})
			if tt.want == "" {
				require.NoError(t, state.Err, tt.reason)
				return
			}
			requireReason(t, state.Err, tt.kind, tt.want)
			assert.Less(t, time.Since(began), limit+time.Second)
		})
	}
}
