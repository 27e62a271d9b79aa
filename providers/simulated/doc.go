// Package simulated is a provider whose hosts and machines live in memory, with faults and latencies to order. The tests of
// the controllers and demonstrations without any hypervisor use it in place of a real one; it keeps the contract of package
// providers to the letter, which providers/providertest checks.
//
// A [World] is what outlives a manager: hosts with machines, disks and images. A [Provider] is one manager's view of it, so a
// crashed manager is a Provider that died and a new one on the same World. Everything goes through one mutex and, with an
// injected clock, nothing happens by itself: what is due is settled at the next call.
//
// A booted machine really proxies: it listens on a loopback address of its own (127.0.0.0/8, derived from its UUID) and serves
// plain HTTP and CONNECT. Its port is the one that the machine's user-data gives to squid ("http_port 3129"), else
// Options.Port. Loopback addresses are reported as the machine's addresses, which a provider of real machines must never do.
// Linux only: other systems answer on 127.0.0.1 alone.
package simulated
