// Package probe tells whether a forward proxy serves: by real requests through it, judged with hysteresis, for as long as
// it lives. The proxy controller is its caller: it hands targets to a [Prober] and reads verdicts.
package probe

import "time"

// Target is one proxy and how it is judged.
type Target struct {
	// Identity tells this proxy from a later one under the same key; a change starts the judgement anew.
	Identity string
	// Address is host:port of the proxy.
	Address string
	// URL is requested through the proxy, http or https.
	URL string
	// ExpectedStatus is the HTTP status that counts as success.
	ExpectedStatus int
	// Username and Password are sent to the proxy when Username is set.
	Username, Password string
	// Interval between probes, Timeout of one.
	Interval, Timeout time.Duration
	// FailureThreshold and SuccessThreshold are runs of equal outcomes that change the verdict.
	FailureThreshold, SuccessThreshold int
}

// Class is what one probe saw.
type Class string

// The classes of a probe.
const (
	// Success: the expected answer.
	Success Class = "Success"
	// ProxyUnreachable: nothing speaks HTTP at the proxy's address.
	ProxyUnreachable Class = "ProxyUnreachable"
	// AuthRejected: the proxy does not take our credentials (407).
	AuthRejected Class = "AuthRejected"
	// ACLDenied: the proxy forbids the request.
	ACLDenied Class = "AclDenied"
	// UpstreamUnreachable: the proxy answers and cannot reach or resolve the target.
	UpstreamUnreachable Class = "UpstreamUnreachable"
	// Timeout: the proxy took the request and gave no answer in time.
	Timeout Class = "Timeout"
	// WrongContent: an answer that is not the target's, or not the expected one (a captive portal, a wrong URL).
	WrongContent Class = "WrongContent"
	// TargetRefused: the target itself refused (401, 403, 429, 5xx). It says nothing about the proxy.
	TargetRefused Class = "TargetRefused"
	// TargetInvalid: the request cannot be made at all, for example for a malformed URL. It says nothing about the proxy.
	TargetInvalid Class = "TargetInvalid"
	// TargetUnavailable: the target does not answer without the proxy either, so nothing is known of the proxy.
	TargetUnavailable Class = "ProbeTargetUnavailable"
)

// Neutral tells whether the class says nothing about the proxy.
func (c Class) Neutral() bool {
	return c == TargetRefused || c == TargetInvalid || c == TargetUnavailable
}

// ByProxy tells whether the proxy itself gave the answer, so that the target has no part in it.
func (c Class) ByProxy() bool { return c == AuthRejected || c == ACLDenied }

// Observation is the outcome of one probe.
type Observation struct {
	Class Class
	// Message is a stable sentence for people, without secrets, ports of our own or times.
	Message string
	// Latency is the time to the answer's header; set for a Success.
	Latency time.Duration
	// At is when the probe ended.
	At time.Time
}
