package conn

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the hash that hashed known_hosts lines are made of
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/proxyard/proxyard/providers"
)

// hostKeys is a known_hosts text in memory; golang.org/x/crypto/ssh/knownhosts reads files only.
type hostKeys []knownLine

type knownLine struct {
	number int
	marker string // "", cert-authority or revoked
	hosts  []string
	key    ssh.PublicKey
}

func parseKnownHosts(text []byte) (hostKeys, error) {
	var keys hostKeys
	number := 0
	for line := range bytes.Lines(text) {
		number++
		marker, hosts, key, _, _, err := ssh.ParseKnownHosts(line)
		if errors.Is(err, io.EOF) && (len(bytes.TrimSpace(line)) == 0 || bytes.TrimSpace(line)[0] == '#') {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("line %d is not a known_hosts line", number)
		}
		if marker != "" && marker != "cert-authority" && marker != "revoked" {
			return nil, fmt.Errorf("line %d has the unknown marker @%s", number, marker)
		}
		keys = append(keys, knownLine{number: number, marker: marker, hosts: hosts, key: key})
	}
	if len(keys) == 0 {
		return nil, errors.New("has no host key")
	}
	return keys, nil
}

// matches reports whether the line speaks of the host, which is in known_hosts form: "name" for port 22, else "[name]:port".
func (l knownLine) matches(host string) bool {
	found := false
	for _, pattern := range l.hosts {
		negated := strings.HasPrefix(pattern, "!")
		if !matchHost(strings.TrimPrefix(pattern, "!"), host) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

func matchHost(pattern, host string) bool {
	if salt, ok := strings.CutPrefix(pattern, "|1|"); ok {
		return matchHashed(salt, host)
	}
	pattern, host = strings.ToLower(pattern), strings.ToLower(host)
	if p, ok := strings.CutSuffix(pattern, "]:22"); ok {
		pattern = strings.TrimPrefix(p, "[")
	}
	// Only * and ? are special in known_hosts, while path.Match knows classes too and brackets are part of "[name]:port".
	glob := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`).Replace(pattern)
	ok, err := path.Match(glob, host)
	return err == nil && ok
}

func matchHashed(saltAndHash, host string) bool {
	salt64, hash64, _ := strings.Cut(saltAndHash, "|")
	salt, err1 := base64.StdEncoding.DecodeString(salt64)
	want, err2 := base64.StdEncoding.DecodeString(hash64)
	if err1 != nil || err2 != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(host))
	return hmac.Equal(mac.Sum(nil), want)
}

func (k hostKeys) of(host, marker string) []knownLine {
	var lines []knownLine
	for _, l := range k {
		if l.marker == marker && l.matches(host) {
			lines = append(lines, l)
		}
	}
	return lines
}

// algorithms are those that the known keys of a host can prove: a server that has several keys must show the one we know.
// Nil, which is the library's default, for a host of which nothing is known: its key then appears in the error.
func (k hostKeys) algorithms(addr string) []string {
	host := knownhosts.Normalize(addr)
	var algorithms []string
	for _, l := range k.of(host, "") {
		if l.key.Type() == ssh.KeyAlgoRSA {
			algorithms = append(algorithms, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		algorithms = append(algorithms, l.key.Type())
	}
	if len(k.of(host, "cert-authority")) > 0 {
		algorithms = append([]string{
			ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
			ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
		}, algorithms...)
	}
	slices.Sort(algorithms)
	return slices.Compact(algorithms)
}

// check is an ssh.HostKeyCallback. Only a key that is listed, or a certificate of a listed authority, passes.
//
// Errors: Denied with reason HostKeyUnknown, HostKeyChanged or HostKeyRevoked.
func (k hostKeys) check(addr string, remote net.Addr, key ssh.PublicKey) error {
	host := knownhosts.Normalize(addr)
	for _, l := range k.of(host, "revoked") {
		if sameKey(l.key, key) || sameKey(l.key, authorityOf(key)) {
			return hostKeyError(ReasonHostKeyRevoked, "the host key of %s (%s) is revoked in known_hosts line %d", host, describe(key), l.number)
		}
	}
	checker := ssh.CertChecker{
		IsHostAuthority: func(authority ssh.PublicKey, _ string) bool {
			return slices.ContainsFunc(k.of(host, "cert-authority"), func(l knownLine) bool { return sameKey(l.key, authority) })
		},
		HostKeyFallback: func(string, net.Addr, ssh.PublicKey) error { return k.checkPlain(host, key) },
	}
	err := checker.CheckHostKey(addr, remote, key)
	var own *providers.Error
	if err != nil && !errors.As(err, &own) {
		return hostKeyError(ReasonHostKeyUnknown, "the host certificate of %s is not valid: %v", host, err)
	}
	return err
}

func (k hostKeys) checkPlain(host string, key ssh.PublicKey) error {
	lines := k.of(host, "")
	if slices.ContainsFunc(lines, func(l knownLine) bool { return sameKey(l.key, key) }) {
		return nil
	}
	var known []string
	for _, l := range lines {
		if l.key.Type() == key.Type() {
			return hostKeyError(ReasonHostKeyChanged, "the host key of %s CHANGED: known_hosts line %d has %s, the host shows %s; "+
				"find out why before you replace the line", host, l.number, describe(l.key), describe(key))
		}
		known = append(known, l.key.Type())
	}
	if len(known) > 0 {
		return hostKeyError(ReasonHostKeyUnknown, "%s shows %s, known_hosts has only %s for it", host, describe(key), strings.Join(known, ", "))
	}
	return hostKeyError(ReasonHostKeyUnknown, "known_hosts has no key for %s, which shows %s; add it after checking it on the host", host, describe(key))
}

func hostKeyError(reason, format string, args ...any) error {
	return &providers.Error{Kind: providers.Denied, Reason: reason, Msg: fmt.Sprintf(format, args...)}
}

func describe(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

func sameKey(a, b ssh.PublicKey) bool {
	return a != nil && b != nil && bytes.Equal(a.Marshal(), b.Marshal())
}

func authorityOf(key ssh.PublicKey) ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.SignatureKey
	}
	return nil
}
