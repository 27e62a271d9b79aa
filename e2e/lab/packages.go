package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// requirement is a Debian package and the file or command by which we see that it is there.
type requirement struct{ pkg, command, file string }

// requirements is the one list of what the lab needs from Debian.
func requirements() []requirement {
	return []requirement{
		{pkg: "iproute2", command: "ip"},
		{pkg: "procps", command: "sysctl"},
		{pkg: "libvirt-daemon-system", command: "libvirtd", file: "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_network.so"},
		{pkg: "libvirt-clients", command: "virsh"},
		{pkg: "qemu-system-x86", command: "qemu-system-x86_64"},
		{pkg: "qemu-utils", command: "qemu-img"},
		{pkg: "dnsmasq-base", command: "dnsmasq"},
		{pkg: "openssh-server", command: "sshd"},
		{pkg: "mmdebstrap", command: "mmdebstrap"},
		{pkg: "debian-archive-keyring", file: "/usr/share/keyrings/debian-archive-keyring.gpg"},
		{pkg: "apt-utils", command: "apt-ftparchive"},
		{pkg: "syslinux", command: "syslinux"},
		{pkg: "syslinux-common", file: "/usr/lib/SYSLINUX/mbr.bin"},
		{pkg: "mtools", command: "mcopy"},
		{pkg: "dosfstools", command: "mkfs.vfat"},
		{pkg: "e2fsprogs", command: "mkfs.ext4"},
		{pkg: "fdisk", command: "sfdisk"},
		{pkg: "kubernetes-client", command: "kubectl"},
	}
}

// MissingPackages are the Debian packages that the lab needs and this machine lacks.
func MissingPackages() []string {
	var missing []string
	for _, r := range requirements() {
		if r.command != "" && !hasCommand(r.command) || r.file != "" && !exists(r.file) {
			missing = append(missing, r.pkg)
		}
	}
	return missing
}

// aptScript installs without starting anything: libvirt's and ssh's packages would otherwise open a daemon on this machine at
// once. The two programs that start services are covered in this mount namespace only, so that nothing has to be undone.
const aptScript = `set -e
for start in /usr/bin/deb-systemd-invoke /usr/sbin/invoke-rc.d; do [ ! -e $start ] || mount --bind /bin/true $start; done
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq --yes --no-install-recommends -o Dpkg::Use-Pty=0 install "$@"`

// InstallPackages installs with apt-get what is missing. It fails with one clear line when it may not or cannot.
func InstallPackages(ctx context.Context, log func(format string, args ...any)) error {
	missing := MissingPackages()
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 || !hasCommand("apt-get") {
		return fmt.Errorf("please install, as root: apt-get install %s", joined(missing))
	}
	started := time.Now()
	log("installing %s", joined(missing))
	out, err := exec.CommandContext(ctx, "unshare", slices.Concat(
		[]string{"--mount", "--propagation", "private", "sh", "-c", aptScript, "apt"}, missing)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get install %s: %w: %s", joined(missing), err, tail(string(out)))
	}
	if still := MissingPackages(); len(still) > 0 {
		return fmt.Errorf("apt-get went well, but %s cannot be found", joined(still))
	}
	log("installed (%.0fs)", time.Since(started).Seconds())
	return nil
}

func joined(words []string) string { return strings.Join(words, " ") }

// tail is the end of a command's output: where apt says what went wrong.
func tail(text string) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-1000):]
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, os.ErrNotExist)
}
