package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
)

// Reasons of the errors of this package, for conditions. A libvirt error that has no reason of its own has none here either.
const (
	ReasonInvalidURI         = "InvalidURI"
	ReasonCredentialsInvalid = "CredentialsInvalid"

	ReasonConnecting                = "Connecting"
	ReasonClosed                    = "Closed"
	ReasonConnectionLost            = "ConnectionLost"
	ReasonDeadlineExceeded          = "DeadlineExceeded"
	ReasonCancelled                 = "Cancelled"
	ReasonTooManyCalls              = "TooManyCalls"
	ReasonNoProgress                = "NoProgress"
	ReasonStalled                   = "Stalled"
	ReasonResolveFailed             = "ResolveFailed"
	ReasonConnectionRefused         = "ConnectionRefused"
	ReasonConnectTimeout            = "ConnectTimeout"
	ReasonNoRoute                   = "NoRoute"
	ReasonConnectFailed             = "ConnectFailed"
	ReasonHostKeyUnknown            = "HostKeyUnknown"
	ReasonHostKeyChanged            = "HostKeyChanged"
	ReasonHostKeyRevoked            = "HostKeyRevoked"
	ReasonAuthenticationFailed      = "AuthenticationFailed"
	ReasonSSHHandshakeFailed        = "SSHHandshakeFailed"
	ReasonSSHSessionsExhausted      = "SSHSessionsExhausted"
	ReasonTLSHandshakeFailed        = "TLSHandshakeFailed"
	ReasonServerCertificateInvalid  = "ServerCertificateInvalid"
	ReasonStreamForwardingForbidden = "StreamForwardingProhibited"
	ReasonSocketMissing             = "SocketMissing"
	ReasonSocketDenied              = "SocketDenied"
	ReasonNotLibvirt                = "NotLibvirt"
	ReasonLibvirtTooOld             = "LibvirtTooOld"

	ReasonSASLRequired       = "SASLRequired"
	ReasonReadOnlySocket     = "ReadOnlySocket"
	ReasonPolkitDenied       = "PolkitDenied"
	ReasonNoDriver           = "NoDriver"
	ReasonUnsupported        = "Unsupported"
	ReasonPoolFull           = "PoolFull"
	ReasonPoolBusy           = "PoolBusy"
	ReasonHostOutOfMemory    = "HostOutOfMemory"
	ReasonOperationTimeout   = "OperationTimeout"
	ReasonResourceBusy       = "ResourceBusy"
	ReasonAgentUnresponsive  = "AgentUnresponsive"
	ReasonAgentNotConfigured = "AgentNotConfigured"
	ReasonAgentCommandFailed = "AgentCommandFailed"
)

// Code returns libvirt's own error number, when err comes from a libvirt daemon.
func Code(err error) (libvirt.ErrorNumber, bool) {
	var e libvirt.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return libvirt.ErrorNumber(e.Code), true
}

// codeRow maps a libvirt error to the contract; text, if not empty, must be part of the message (lower case).
type codeRow struct {
	code   libvirt.ErrorNumber
	text   string
	kind   providers.Kind
	reason string
}

// codeTable is searched from the top; rows with a text come before the same code without. Codes that are not here are
// Internal: 9 (operation failed), 55 (operation invalid) and 90 (volume exists) have several meanings each, which only the
// caller can tell apart by looking at the state.
var codeTable = []codeRow{
	{libvirt.ErrSystemError, "no space left on device", providers.Exhausted, ReasonPoolFull},
	{libvirt.ErrInternalError, "asynchronous jobs running", providers.Busy, ReasonPoolBusy},
	{libvirt.ErrInternalError, "system bus", providers.Denied, ReasonPolkitDenied},
	{libvirt.ErrInternalError, "client socket is closed", providers.Unreachable, ReasonConnectionLost},
	{libvirt.ErrRPC, "authentication required", providers.Denied, ReasonSASLRequired},
	{libvirt.ErrOperationDenied, "read only", providers.Denied, ReasonReadOnlySocket},
	{libvirt.ErrOperationDenied, "read-only", providers.Denied, ReasonReadOnlySocket},
	{libvirt.ErrOperationDenied, "", providers.Denied, ""},
	{libvirt.ErrAuthFailed, "polkit", providers.Denied, ReasonPolkitDenied},
	{libvirt.ErrAuthFailed, "policy", providers.Denied, ReasonPolkitDenied},
	{libvirt.ErrAuthFailed, "", providers.Denied, ReasonAuthenticationFailed},
	{libvirt.ErrAuthCancelled, "", providers.Denied, ReasonPolkitDenied},
	{libvirt.ErrAccessDenied, "", providers.Denied, ReasonPolkitDenied},
	{libvirt.ErrAuthUnavailable, "", providers.Denied, ReasonPolkitDenied},
	{libvirt.ErrNoDomain, "", providers.NotFound, ""},
	{libvirt.ErrNoNetwork, "", providers.NotFound, ""},
	{libvirt.ErrNoStoragePool, "", providers.NotFound, ""},
	{libvirt.ErrNoStorageVol, "", providers.NotFound, ""},
	{libvirt.ErrNoDomainMetadata, "", providers.NotFound, ""},
	{libvirt.ErrInvalidArg, "", providers.Invalid, ""},
	{libvirt.ErrXMLError, "", providers.Invalid, ""},
	{libvirt.ErrXMLDetail, "", providers.Invalid, ""},
	{libvirt.ErrXMLInvalidSchema, "", providers.Invalid, ""},
	{libvirt.ErrConfigUnsupported, "", providers.Invalid, ""},
	{libvirt.ErrNoMemory, "", providers.Exhausted, ReasonHostOutOfMemory},
	{libvirt.ErrOperationTimeout, "", providers.Busy, ReasonOperationTimeout},
	{libvirt.ErrResourceBusy, "", providers.Busy, ReasonResourceBusy},
	{libvirt.ErrAgentUnresponsive, "", providers.Busy, ReasonAgentUnresponsive},
	{libvirt.ErrAgentUnsynced, "", providers.Busy, ReasonAgentUnresponsive},
	{libvirt.ErrAgentCommandTimeout, "", providers.Busy, ReasonAgentUnresponsive},
	{libvirt.ErrAgentCommandFailed, "", providers.Internal, ReasonAgentCommandFailed},
	{libvirt.ErrArgumentUnsupported, "guest agent", providers.NotFound, ReasonAgentNotConfigured},
	{libvirt.ErrNoConnect, "", providers.Unreachable, ReasonNoDriver},
	{libvirt.ErrNoSupport, "", providers.Internal, ReasonUnsupported},
}

// outcomeRow maps what go-libvirt, the guard or the system say of a connection.
type outcomeRow struct {
	err    error
	kind   providers.Kind
	reason string
	msg    string
}

// outcomeTable is searched from the top with errors.Is.
var outcomeTable = []outcomeRow{
	{errNotLibvirt, providers.Unreachable, ReasonNotLibvirt, "the peer does not speak libvirt's protocol; check host and port of the uri"},
	{errNoProgress, providers.Unreachable, ReasonNoProgress, "the host does not take or give data"},
	{errStalled, providers.Busy, ReasonStalled, "the other end of the transfer does not take or give data"},
	{errPanicked, providers.Unreachable, ReasonNotLibvirt, "the peer's answer cannot be decoded"},
	{errExpired, providers.Unreachable, ReasonConnectionLost, "connection closed"},
	{errSilent, providers.Unreachable, ReasonConnectionLost, "connection closed"},
	{errBusy, providers.Busy, ReasonTooManyCalls, "all calls to this host are taken"},
	{errClosed, providers.Unreachable, ReasonClosed, "the host was removed or its settings changed"},
	{context.Canceled, providers.Unreachable, ReasonCancelled, "cancelled by the caller"},
	{context.DeadlineExceeded, providers.Unreachable, ReasonDeadlineExceeded, "no answer in time, connection closed"},
	{libvirt.ErrUnsupported, providers.Internal, ReasonUnsupported, "this libvirt is older than the call"},
	{libvirt.ErrInterrupted, providers.Unreachable, ReasonConnectionLost, "connection lost"},
	{ErrCut, providers.Unreachable, ReasonConnectionLost, "connection lost"},
	{syscall.EINVAL, providers.Unreachable, ReasonConnectionLost, "connection lost"},
	{syscall.EPIPE, providers.Unreachable, ReasonConnectionLost, "connection lost"},
	{syscall.ECONNRESET, providers.Unreachable, ReasonConnectionLost, "connection lost"},
	{io.EOF, providers.Unreachable, ReasonConnectionLost, "connection closed by the host"},
	{io.ErrClosedPipe, providers.Unreachable, ReasonConnectionLost, "connection lost"},
	{net.ErrClosed, providers.Unreachable, ReasonConnectionLost, "connection lost"},
}

var (
	errNotLibvirt = errors.New("not a libvirt peer")
	errNoProgress = fmt.Errorf("less than %d bytes within the limit", minProgress)
	errStalled    = errors.New("the reader or writer of the transfer stands still")
	errBusy       = errors.New("too many calls in flight")
	errClosed     = errors.New("closed")
	errPanicked   = errors.New("decoder panicked")
	errExpired    = errors.New("a call on it had no answer in time")
	errSilent     = errors.New("the host does not answer pings")
)

// dataError is an error of the reader or writer of a transfer: whatever it is, it says nothing about the host.
type dataError struct{ error }

func (e dataError) Unwrap() error { return e.error }

// classify makes err an *providers.Error of this host. An error that is one already is the caller's own and stays.
func classify(host, procedure string, err error) error {
	var own *providers.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	var data dataError
	if errors.As(err, &data) {
		return &providers.Error{Kind: providers.Internal, Host: host, Msg: procedure, Err: err}
	}
	if code, ok := Code(err); ok {
		return classifyCode(host, procedure, code, err)
	}
	for _, row := range outcomeTable {
		if errors.Is(err, row.err) {
			return &providers.Error{Kind: row.kind, Reason: row.reason, Host: host, Msg: join(procedure, row.msg), Err: err}
		}
	}
	return &providers.Error{Kind: providers.Internal, Host: host, Msg: procedure, Err: err}
}

func classifyCode(host, procedure string, code libvirt.ErrorNumber, err error) error {
	e := &providers.Error{Kind: providers.Internal, Host: host, Msg: procedure, Err: err}
	text := strings.ToLower(err.Error())
	for _, row := range codeTable {
		if row.code == code && strings.Contains(text, row.text) {
			e.Kind, e.Reason = row.kind, row.reason
			break
		}
	}
	return e
}

func join(procedure, msg string) string {
	if procedure == "" {
		return msg
	}
	return procedure + ": " + msg
}
