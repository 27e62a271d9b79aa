package kvm

import (
	"net/netip"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/assert"
)

func ips(s ...string) []netip.Addr {
	out := make([]netip.Addr, 0, len(s))
	for _, x := range s {
		out = append(out, netip.MustParseAddr(x))
	}
	return out
}

func TestAddressBook(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type report struct {
		source addressSource
		ips    []netip.Addr
		after  time.Duration
	}
	for name, tc := range map[string]struct {
		reports []report
		at      time.Duration
		want    []string
		reason  string
	}{
		"nothing yet": {nil, 0, nil, "no address is no failure"},
		"lease only":  {[]report{{sourceLease, ips("10.88.11.5"), 0}}, 0, []string{"10.88.11.5"}, ""},
		"agent outranks lease": {
			[]report{{sourceLease, ips("10.88.11.5"), 0}, {sourceAgent, ips("10.88.11.6"), 0}}, 0, []string{"10.88.11.6", "10.88.11.5"}, "the guest knows best",
		},
		"unroutable ones": {
			[]report{{sourceAgent, ips("127.0.0.1", "169.254.1.2", "fe80::1", "224.0.0.5", "ff02::1", "0.0.0.0", "::", "255.255.255.255", "10.0.0.4"), 0}}, 0, []string{"10.0.0.4"}, "",
		},
		"IPv6 only":  {[]report{{sourceAgent, ips("fe80::1", "2001:db8::7"), 0}}, 0, []string{"2001:db8::7"}, "IPv6-only is valid"},
		"IPv4 first": {[]report{{sourceAgent, ips("2001:db8::7", "10.0.0.4"), 0}}, 0, []string{"10.0.0.4", "2001:db8::7"}, ""},
		"mapped":     {[]report{{sourceAgent, ips("::ffff:10.0.0.4"), 0}, {sourceLease, ips("10.0.0.4"), 0}}, 0, []string{"10.0.0.4"}, "one address, once"},
		"agent falls silent": {
			[]report{{sourceAgent, ips("10.0.0.4"), 0}, {sourceAgent, nil, time.Minute}}, time.Minute, []string{"10.0.0.4"}, "an address must not flap",
		},
		"agent silent for long, new lease": {
			[]report{{sourceAgent, ips("10.0.0.4"), 0}, {sourceLease, ips("10.0.0.9"), time.Hour}}, time.Hour, []string{"10.0.0.9", "10.0.0.4"}, "a fresh lease outranks a stale agent",
		},
		"changed after a reboot": {
			[]report{{sourceLease, ips("10.0.0.4"), 0}, {sourceLease, ips("10.0.0.5"), time.Minute}}, time.Minute, []string{"10.0.0.5"}, "a source replaces what it said before",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := addressBook{}
			for _, r := range tc.reports {
				b.report(r.source, r.ips, t0.Add(r.after))
			}
			var got []string
			for _, a := range b.list(t0.Add(tc.at)) {
				got = append(got, a.IP.String())
			}
			assert.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestReportTellsWhetherSomethingChanged(t *testing.T) {
	b := addressBook{}
	assert.True(t, b.report(sourceLease, ips("10.0.0.4"), time.Now()))
	assert.False(t, b.report(sourceLease, ips("10.0.0.4"), time.Now()), "the same again wakes nobody")
	assert.False(t, b.report(sourceLease, nil, time.Now()), "silence wakes nobody")
	assert.True(t, b.report(sourceLease, ips("10.0.0.5"), time.Now()))
}

func TestNewestLeases(t *testing.T) {
	at := func(mac, ip string, expiry int64) lease { return lease{mac, netip.MustParseAddr(ip), expiry} }
	got := newestLeases([]lease{at("a", "10.0.0.1", 100), at("a", "10.0.0.2", 300), at("a", "10.0.0.3", 200), at("a", "2001:db8::1", 50), at("b", "10.0.0.9", 1)})
	assert.Equal(t, map[string][]netip.Addr{"a": ips("10.0.0.2", "2001:db8::1"), "b": ips("10.0.0.9")}, got,
		"several leases of one MAC are usual after a reboot: the newest of each family is the one in use")
}

func TestAddressesOfOurNICOnly(t *testing.T) {
	row := func(name, mac string, addrs ...string) libvirt.DomainInterface {
		r := libvirt.DomainInterface{Name: name, Hwaddr: libvirt.OptString{mac}}
		for _, a := range addrs {
			r.Addrs = append(r.Addrs, libvirt.DomainIPAddr{Addr: a})
		}
		return r
	}
	const ours = "02:90:99:dd:8d:17"
	got := addressesOf([]libvirt.DomainInterface{
		row("lo", "00:00:00:00:00:00", "127.0.0.1"),
		row("docker0", "02:42:ac:11:00:01", "172.17.0.1"),
		row("vnet7", "02:90:99:DD:8D:17", "10.77.0.111", "fe80::1"),
		row("ens4", "52:54:00:00:00:01", "192.168.5.5"),
		{Name: "tun0", Addrs: []libvirt.DomainIPAddr{{Addr: "10.8.0.2"}}},
		row("ens3", ours, "2001:db8::7", "not an address"),
	}, ours)
	assert.Equal(t, ips("10.77.0.111", "fe80::1", "2001:db8::7"), got, "by MAC in any case of letters, whatever the interface is called")
}
