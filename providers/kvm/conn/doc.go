// Package conn keeps one libvirt host reachable and keeps its troubles at that host. providers/kvm is its only caller.
//
// go-libvirt speaks the protocol, but has no contexts, no time limits, no reconnect, trusts every byte of its peer, and can
// deadlock or crash the process. This package therefore owns everything around it:
//
//   - dialers for ssh, tcp, tls and unix sockets that work from credentials in memory (endpoint.go, dial*.go, knownhosts.go);
//   - a guard on the socket that lets only those frames through that a call is waiting for (guard*.go);
//   - a link: one socket, one client object, never used again once it is suspect (link.go);
//   - a [Host]: one link for calls, replaced in the background when it is lost, one for guest-agent calls, one for every
//     transfer of a volume (host.go, call.go, agent.go, transfer.go).
//
// Every call is bounded by its context and by [Limits]. What cannot be answered in time closes the connection, since nothing
// else frees go-libvirt's callers; the calls that shared it end with kind Unreachable, reason ConnectionLost. All errors are
// *providers.Error, classified in one table (errors.go).
package conn
