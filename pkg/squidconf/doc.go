// Package squidconf renders the cloud-config of a closed squid, for a Proxy that brings no user-data of its own.
//
// Closed means: only the named client networks are served, with a password when a user is given; targets on loopback,
// link-local, metadata and private addresses are refused, so that the proxy is no way into the network that it stands in; and
// squid tells neither its targets nor its clients about itself. The controller of a Proxy calls CloudConfig and hands the
// result to package cloudinit. Written for squid 5.7 (Debian 12) and 6.13 (Debian 13); measured facts are in the tests.
package squidconf
