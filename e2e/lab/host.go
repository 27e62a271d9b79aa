package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

//go:embed host_init.sh
var hostInit string

// hostStartTimeout is generous: one second is normal, but two cores may have a guest to emulate.
const hostStartTimeout = 60 * time.Second

// hostName keeps the names of its namespace and devices short and plain.
var hostName = regexp.MustCompile(`^[a-z][a-z0-9]{0,9}$`)

// HostOptions of a host.
type HostOptions struct {
	Name string // [a-z][a-z0-9]*, at most 10 characters
	N    int    // 11 … 99: the host is 10.77.0.N, its routed network 10.88.N.0/24
}

// Host is one libvirt host: libvirtd on tcp (no authentication), ssh (key) and a unix socket, a pool, two kinds of network.
type Host struct {
	Name    string
	Address string // 10.77.0.N
	TCP     string // qemu+tcp URI
	SSH     string // qemu+ssh URI; needs PrivateKey and KnownHosts
	Socket  string // libvirtd's unix socket, as a path of this machine

	PrivateKey     []byte // of root on this host, OpenSSH PEM, ed25519
	KnownHosts     []byte // the line that pins this host's ed25519 key; the server also offers an ecdsa one
	PrivateKeyFile string // the same as files
	KnownHostsFile string

	Network string // "default": routed from this machine, DHCP by libvirt, which thus knows the leases
	Bridge  string // "br0": the lab's LAN, DHCP by a server that libvirt knows nothing of
	Pool    string // "default"
	PoolDir string // the pool's folder, as a path of this machine

	netns, link string
	process     *process
}

// Host starts a libvirt host and returns when it can be used.
func (l *Lab) Host(ctx context.Context, opts HostOptions) (*Host, error) {
	if !hostName.MatchString(opts.Name) {
		return nil, fmt.Errorf("host name %q: want at most 10 of [a-z0-9], a letter first", opts.Name)
	}
	if opts.N < 11 || opts.N > 99 {
		return nil, fmt.Errorf("host %s: number %d is not in 11 … 99", opts.Name, opts.N)
	}
	started := time.Now()
	h := newHost(l.dir, opts)
	if err := h.writeFiles(filepath.Join(l.dir, "hosts", h.Name)); err != nil {
		return nil, err
	}
	if err := l.connectHost(ctx, h); err != nil {
		return nil, fmt.Errorf("network of host %s: %w", h.Name, err)
	}
	if err := l.startHost(ctx, h); err != nil {
		return nil, fmt.Errorf("host %s: %w", h.Name, err)
	}
	if err := h.defineResources(ctx, opts.N); err != nil {
		return nil, fmt.Errorf("resources of host %s: %w", h.Name, err)
	}
	l.log("host %s at %s (%.1fs)", h.Name, h.Address, time.Since(started).Seconds())
	return h, nil
}

func newHost(dir string, opts HostOptions) *Host {
	address := "10.77.0." + strconv.Itoa(opts.N)
	base := filepath.Join(dir, "hosts", opts.Name)
	return &Host{
		Name: opts.Name, Address: address,
		TCP: "qemu+tcp://" + address + "/system", SSH: "qemu+ssh://root@" + address + "/system",
		Socket:         filepath.Join(hostsRunDir, opts.Name, "libvirt/libvirt-sock"),
		PrivateKeyFile: filepath.Join(base, "ssh/client"), KnownHostsFile: filepath.Join(base, "ssh/known_hosts"),
		Network: "default", Bridge: "br0", Pool: "default", PoolDir: filepath.Join(base, "libvirt-lib/images"),
		netns: "pxl-" + opts.Name, link: "pxl-v" + strconv.Itoa(opts.N),
	}
}

// connectHost makes the host's network namespace and plugs it into the LAN. Its own bridge br0 is the cable's end, so that
// a guest on br0 is a neighbour of this machine, as on a real LAN.
func (l *Lab) connectHost(ctx context.Context, h *Host) error {
	err := l.lock.note(func(r *record) {
		r.Netns, r.Links = append(r.Netns, h.netns), append(r.Links, h.link)
	})
	if err != nil {
		return err
	}
	l.onClose(func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(deleteLink(ctx, h.link), deleteNetns(ctx, h.netns))
	})
	in := "ip -n " + h.netns + " "
	return runAll(ctx,
		"ip netns add "+h.netns,
		"ip link add "+h.link+" type veth peer name eth0 netns "+h.netns,
		"ip link set "+h.link+" master "+bridge+" up",
		in+"link add br0 type bridge",
		in+"link set eth0 master br0 up",
		in+"addr add "+h.Address+"/24 dev br0",
		in+"link set br0 up",
		in+"link set lo up",
		in+"route add default via "+Address,
		"ip netns exec "+h.netns+" sysctl -qw net.ipv4.ip_forward=1")
}

func (l *Lab) startHost(ctx context.Context, h *Host) (err error) {
	base, runAs := filepath.Join(l.dir, "hosts", h.Name), filepath.Join(hostsRunDir, h.Name)
	h.process, err = l.startProcess(h.Name, "ip", "netns", "exec", h.netns,
		"unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc",
		"bash", "-c", hostInit, "host-init", base, runAs)
	if err != nil {
		return err
	}
	// Killed, not asked: the guests of a lab have nothing to save, and the kernel ends the whole namespace at once.
	l.onClose(func() error { return h.process.stop(0) })
	return h.process.await(ctx, hostStartTimeout, func() bool {
		_, err := os.Stat(filepath.Join(runAs, "lab.ready"))
		return err == nil
	})
}

// defineResources makes the pool and the routed network.
func (h *Host) defineResources(ctx context.Context, n int) error {
	network, err := h.writeNetwork(n)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"net-define", network},
		{"net-start", h.Network},
		{"net-autostart", h.Network},
		{"pool-define-as", h.Pool, "dir", "--target", "/var/lib/libvirt/images"},
		{"pool-build", h.Pool},
		{"pool-start", h.Pool},
		{"pool-autostart", h.Pool},
	} {
		if _, err := h.Virsh(ctx, args...); err != nil {
			return err
		}
	}
	return runAll(ctx, "ip route replace 10.88."+strconv.Itoa(n)+".0/24 via "+h.Address)
}

// Virsh runs virsh against this host over tcp and gives what it printed.
func (h *Host) Virsh(ctx context.Context, args ...string) (string, error) {
	return run(ctx, append([]string{"virsh", "--quiet", "--connect", h.TCP}, args...)...)
}
