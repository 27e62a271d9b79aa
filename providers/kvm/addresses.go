package kvm

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/proxyard/proxyard/providers"
)

// addressSource says who reported an address.
type addressSource string

// The sources, best first.
const (
	sourceAgent addressSource = "agent"
	sourceLease addressSource = "lease"
	sourceARP   addressSource = "arp"
)

// addressFresh is how long a report outranks one of another source that came later. It spans a few rounds of the slowest
// source, the guest agent's.
const addressFresh = 5 * time.Minute

func (s addressSource) rank() int {
	return slices.Index([]addressSource{sourceAgent, sourceLease, sourceARP}, s)
}

// addressBook holds the last good report of each source. A source that has no answer leaves its last one in place: agents
// are silent for a while, and an address that disappears from status for a minute takes the proxy out of service.
type addressBook map[addressSource][]providers.Address

// report replaces what a source said, unless it says nothing usable.
func (b addressBook) report(s addressSource, ips []netip.Addr, now time.Time) (changed bool) {
	var good []providers.Address
	for _, ip := range ips {
		if ip = ip.Unmap(); routable(ip) && !slices.ContainsFunc(good, func(a providers.Address) bool { return a.IP == ip }) {
			good = append(good, providers.Address{IP: ip, Source: string(s), LastSeen: now})
		}
	}
	if len(good) == 0 {
		return false
	}
	same := func(a, c providers.Address) bool { return a.IP == c.IP }
	changed = !slices.EqualFunc(b[s], good, same)
	b[s] = good
	return changed
}

// list merges the sources, preferred first: fresh reports, then by source, IPv4 before IPv6. Each address appears once.
func (b addressBook) list(now time.Time) []providers.Address {
	var all []providers.Address
	for _, s := range []addressSource{sourceAgent, sourceLease, sourceARP} {
		all = append(all, b[s]...)
	}
	stale := func(a providers.Address) int {
		if now.Sub(a.LastSeen) > addressFresh {
			return 1
		}
		return 0
	}
	family := func(a providers.Address) int { return a.IP.BitLen() }
	slices.SortStableFunc(all, func(a, c providers.Address) int {
		return cmp.Or(cmp.Compare(stale(a), stale(c)), cmp.Compare(addressSource(a.Source).rank(), addressSource(c.Source).rank()), cmp.Compare(family(a), family(c)))
	})
	seen := map[netip.Addr]bool{}
	return slices.DeleteFunc(all, func(a providers.Address) bool {
		dup := seen[a.IP]
		seen[a.IP] = true
		return dup
	})
}

// routable drops what no client can reach a proxy under.
func routable(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// lease is one DHCP lease of a libvirt network.
type lease struct {
	mac    string
	ip     netip.Addr
	expiry int64
}

// newestLeases returns the newest lease of each address family for each MAC: libvirt lists expired and superseded ones
// beside it, and rows must never be matched by interface name, which is the bridge's.
func newestLeases(all []lease) map[string][]netip.Addr {
	slices.SortStableFunc(all, func(a, b lease) int { return cmp.Compare(b.expiry, a.expiry) })
	out := map[string][]netip.Addr{}
	for _, l := range all {
		if !slices.ContainsFunc(out[l.mac], func(ip netip.Addr) bool { return ip.Is4() == l.ip.Is4() }) {
			out[l.mac] = append(out[l.mac], l.ip)
		}
	}
	return out
}
