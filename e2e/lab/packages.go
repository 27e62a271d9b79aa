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

// testRequirements are what the tests need beside the lab: independent judges of cloud-configs, squid, and UEFI firmware.
func testRequirements() []requirement {
	return []requirement{
		{pkg: "cloud-init", command: "cloud-init"},
		{pkg: "python3-yaml", file: "/usr/lib/python3/dist-packages/yaml/__init__.py"},
		{pkg: "squid", file: "/usr/sbin/squid"},
		{pkg: "ovmf", file: "/usr/share/OVMF/OVMF_CODE_4M.fd"},
	}
}

// MissingPackages are the Debian packages that the lab needs and this machine lacks.
func MissingPackages() []string { return missing(requirements()) }

func missing(all []requirement) []string {
	var missing []string
	for _, r := range all {
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

// InstallPackages installs with apt-get what the lab needs and is missing. It fails with one clear line when it may not or cannot.
func InstallPackages(ctx context.Context, log func(format string, args ...any)) error {
	return install(ctx, requirements(), log)
}

// InstallTestPackages is InstallPackages for the lab and the tests around it.
func InstallTestPackages(ctx context.Context, log func(format string, args ...any)) error {
	return install(ctx, slices.Concat(requirements(), testRequirements()), log)
}

func install(ctx context.Context, all []requirement, log func(format string, args ...any)) error {
	lacking := missing(all)
	if len(lacking) == 0 {
		return nil
	}
	if os.Geteuid() != 0 || !hasCommand("apt-get") {
		return fmt.Errorf("please install, as root: apt-get install %s", joined(lacking))
	}
	started := time.Now()
	log("installing %s", joined(lacking))
	out, err := exec.CommandContext(ctx, "unshare", slices.Concat(
		[]string{"--mount", "--propagation", "private", "sh", "-c", aptScript, "apt"}, lacking)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get install %s: %w: %s", joined(lacking), err, tail(string(out)))
	}
	if still := missing(all); len(still) > 0 {
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
