package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// squidErrorHeader is on every error page that squid makes itself. A target could forge it, so it is a hint beside the
// status, not proof.
const squidErrorHeader = "X-Squid-Error"

// classifyStatus judges an answer that came as a response to a plain request.
func classifyStatus(status, expected int, header http.Header) (Class, string) {
	squid := header.Get(squidErrorHeader)
	switch {
	case status == http.StatusProxyAuthRequired:
		return AuthRejected, "the proxy rejects the credentials (407)"
	case squid != "":
		return classifyProxyAnswer(status, header)
	case status == expected:
		return Success, ""
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests, status >= 500:
		return TargetRefused, fmt.Sprintf("the target itself answers %d", status)
	default:
		return WrongContent, fmt.Sprintf("status %d where %d was expected", status, expected)
	}
}

// classifyProxyAnswer judges a refusal that the proxy itself made: an error page of squid, or any answer to CONNECT but 200.
func classifyProxyAnswer(status int, header http.Header) (Class, string) {
	why := fmt.Sprintf("%d", status)
	if squid := header.Get(squidErrorHeader); squid != "" {
		why += ", " + squid
	}
	switch {
	case status == http.StatusProxyAuthRequired:
		return AuthRejected, "the proxy rejects the credentials (407)"
	case status == http.StatusForbidden:
		return ACLDenied, "the proxy forbids the request (" + why + ")"
	case status >= 500:
		return UpstreamUnreachable, "the proxy cannot reach the target (" + why + ")"
	default:
		return WrongContent, "the proxy answers in an unexpected way (" + why + ")"
	}
}

// dialError marks an error of the way to the proxy.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// refusalError is the proxy's answer to CONNECT when it was not 200.
type refusalError struct {
	status int
	header http.Header
}

func (e *refusalError) Error() string { return fmt.Sprintf("CONNECT answered %d", e.status) }

// classifyError judges a request that brought no response.
func classifyError(err error) (Class, string) {
	var refusal *refusalError
	var dial *dialError
	switch {
	case errors.As(err, &refusal):
		return classifyProxyAnswer(refusal.status, refusal.header)
	case errors.As(err, &dial):
		return ProxyUnreachable, "cannot connect to the proxy: " + describe(dial.err)
	case isTimeout(err):
		return Timeout, "the proxy gave no answer in time"
	case isCertificate(err):
		return WrongContent, "the certificate behind the proxy is not the target's"
	default:
		return ProxyUnreachable, "no HTTP answer from the proxy: " + describe(err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &n) && n.Timeout())
}

func isCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname)
}

// describe turns an error into stable words: the error's own text may hold the port that we happened to get.
func describe(err error) string {
	var errno syscall.Errno
	var dns *net.DNSError
	switch {
	case isTimeout(err):
		return "no answer in time"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	default:
		return "malformed answer"
	}
}
