package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"
)

// identity is what the API server proves itself with and recognises the admin by. The files are kept in dir/certs with mode
// 0600. Certificate and token are new at every start; the ServiceAccount key stays, so that issued tokens outlive a restart.
type identity struct {
	certFile, keyFile, tokenFile, accountKeyFile string

	ca    []byte // PEM
	token string
}

func newIdentity(dir, bindAddress string) (*identity, error) {
	certs := filepath.Join(dir, "certs")
	if err := os.MkdirAll(certs, 0o700); err != nil {
		return nil, fmt.Errorf("folder for certificates: %w", err)
	}
	id := &identity{
		certFile: filepath.Join(certs, "apiserver.crt"), keyFile: filepath.Join(certs, "apiserver.key"),
		tokenFile: filepath.Join(certs, "tokens.csv"), accountKeyFile: filepath.Join(certs, "serviceaccount.key"),
		token: rand.Text(),
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(bindAddress)}, nil)
	if err != nil {
		return nil, fmt.Errorf("certificate of the API server: %w", err)
	}
	id.ca = cert
	for name, data := range map[string][]byte{
		id.certFile: cert, id.keyFile: key,
		id.tokenFile: []byte(id.token + ",admin,admin,system:masters\n"),
	} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return nil, fmt.Errorf("keep identity: %w", err)
		}
	}
	return id, ensureAccountKey(id.accountKeyFile)
}

// ensureAccountKey makes the key that signs ServiceAccount tokens, once per folder.
func ensureAccountKey(name string) error {
	if _, err := os.Stat(name); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("key for ServiceAccount tokens: %w", err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(name, block, 0o600); err != nil {
		return fmt.Errorf("keep the key for ServiceAccount tokens: %w", err)
	}
	return nil
}
