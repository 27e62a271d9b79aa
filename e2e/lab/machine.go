package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
)

// What one lab with two hosts and two emulated guests needs at the least.
const (
	minMemory = 3 << 30
	minDisk   = 6 << 30
)

// CheckMachine says in one line each what this machine lacks to run a lab in dir. None: it can.
func CheckMachine(dir string) []string {
	var lacks []string
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		lacks = append(lacks, fmt.Sprintf("this is %s/%s: the lab needs Linux on amd64", runtime.GOOS, runtime.GOARCH))
	}
	if os.Geteuid() != 0 {
		lacks = append(lacks, "not root: the lab makes network namespaces and runs libvirt (try sudo)")
	}
	if missing := MissingPackages(); len(missing) > 0 {
		lacks = append(lacks, fmt.Sprintf("packages are missing: apt-get install %s", joined(missing)))
	}
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if available := memAvailable(string(data)); available < minMemory {
			lacks = append(lacks, fmt.Sprintf("%d MiB of memory available: the lab needs %d", available>>20, minMemory>>20))
		}
	}
	if free, err := diskFree(dir); err == nil && free < minDisk {
		lacks = append(lacks, fmt.Sprintf("%d MiB of disk free at %s: the lab needs %d", free>>20, dir, minDisk>>20))
	}
	return lacks
}

var memAvailableLine = regexp.MustCompile(`(?m)^MemAvailable:\s+(\d+) kB$`)

// memAvailable reads /proc/meminfo; the result is in bytes, 0 when the line is missing.
func memAvailable(meminfo string) uint64 {
	var kib uint64
	if match := memAvailableLine.FindStringSubmatch(meminfo); match != nil {
		_, _ = fmt.Sscan(match[1], &kib)
	}
	return kib << 10
}

// diskFree is in bytes, for the nearest folder on the way to dir that exists.
func diskFree(dir string) (uint64, error) {
	for {
		var stat syscall.Statfs_t
		err := syscall.Statfs(dir, &stat)
		if err == nil {
			return stat.Bavail * uint64(stat.Bsize), nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return 0, fmt.Errorf("free disk space of %q: %w", dir, err)
	}
}

var hardwareVirtualisation = regexp.MustCompile(`(?m)^flags\s*:.*\b(vmx|svm)\b`)

// KVM tells whether guests can use hardware virtualisation here. The CPU decides: /dev/kvm alone may exist where guests hang.
func KVM() bool {
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !hardwareVirtualisation.Match(cpuinfo) {
		return false
	}
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = device.Close()
	return true
}

// hasCommand looks in the system's folders too: an ordinary PATH lacks sbin.
func hasCommand(name string) bool {
	if _, err := exec.LookPath(name); err == nil {
		return true
	}
	_, err := exec.LookPath(filepath.Join("/usr/sbin", name))
	return err == nil
}
