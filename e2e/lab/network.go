package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The lab's network. The addresses are fixed: the guest image names the HTTP server's, and tests can be read.
const (
	bridge = "pxl-br"
	// Address is this machine's address on the lab's LAN, 10.77.0.0/24: DHCP, DNS and HTTP server.
	Address = "10.77.0.1"
	// HTTPPort of the server on Address.
	HTTPPort = 8099
	// ProbeName resolves to Address for every guest. Nothing else resolves: the lab needs no internet.
	ProbeName = "probe.lab.test"
	// Guests on a host's bridge get 10.77.0.100 … 199 from a DHCP server that libvirt knows nothing of.
	lanRange = "10.77.0.100,10.77.0.199,1h"
)

// startLAN makes the bridge that joins this machine and all hosts, as an office's switch would.
func (l *Lab) startLAN(ctx context.Context) error {
	if err := addressesFree(); err != nil {
		return err
	}
	err := l.lock.note(func(r *record) {
		*r = record{PID: os.Getpid(), Dir: l.dir, Links: []string{bridge}}
	})
	if err != nil {
		return err
	}
	l.onClose(func() error { return deleteLink(context.WithoutCancel(ctx), bridge) })
	err = runAll(ctx,
		"ip link add "+bridge+" type bridge",
		"ip addr add "+Address+"/24 dev "+bridge,
		"ip link set "+bridge+" up")
	if err != nil {
		return fmt.Errorf("bridge of the lab: %w", err)
	}
	return l.startDNSMasq(ctx)
}

// addressesFree fails when this machine is already in a network that the lab is about to make.
func addressesFree() error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, address := range addresses {
		ip, _, err := net.ParseCIDR(address.String())
		if err != nil {
			continue
		}
		if four := ip.To4(); four != nil && four[0] == 10 && (four[1] == 77 && four[2] == 0 || four[1] == 88 && four[2] < 100) {
			return fmt.Errorf("this machine has the address %s: the lab needs 10.77.0.0/24 and 10.88.0.0 … 10.88.99.255 for itself", ip)
		}
	}
	return nil
}

func (l *Lab) startDNSMasq(ctx context.Context) error {
	leases := filepath.Join(l.dir, "dnsmasq.leases")
	p, err := l.startProcess("dnsmasq", contained("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file=",
		"--interface="+bridge, "--except-interface=lo", "--bind-interfaces",
		"--no-resolv", "--no-hosts", "--host-record="+ProbeName+","+Address,
		"--dhcp-range="+lanRange, "--dhcp-option=option:router,"+Address, "--dhcp-authoritative",
		"--dhcp-leasefile="+leases, "--log-facility=-")...)
	if err != nil {
		return err
	}
	l.onClose(func() error { return p.stop(killGrace) })
	dialer := net.Dialer{Timeout: time.Second}
	return p.await(ctx, 10*time.Second, func() bool {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(Address, strconv.Itoa(53)))
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// linkExists tells whether this machine has a network device of that name.
func linkExists(name string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", name))
	return err == nil
}

func deleteLink(ctx context.Context, name string) error {
	if !linkExists(name) {
		return nil
	}
	_, err := run(ctx, "ip", "link", "del", name)
	if err != nil && !linkExists(name) {
		return nil // the other end of a veth takes it along, at its own time
	}
	return err
}
