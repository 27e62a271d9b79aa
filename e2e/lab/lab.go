// Package lab is the real thing on one Linux machine: libvirt hosts in network, mount and process namespaces of their own, a guest
// image, an HTTP server for it and a Kubernetes API. The e2e suites and `lab` (cmd/lab), which the demo uses, are its callers.
//
// What a lab starts ends with the process that holds it, even by kill -9: each host is a process namespace whose first process
// dies with its parent, and with it everything inside. What the kernel then still keeps (names of network namespaces, a bridge)
// is recorded before it is made and removed by the next lab or by [Clean]. All of it is called pxl-…; nothing else is touched.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Options of a lab.
type Options struct {
	// Dir is the work folder, on a real disk: the VMs' disks live in it. Default: "lab" in the cache folder.
	Dir string
	// Wait makes New wait, until its ctx ends, for another lab on this machine to be closed. Otherwise New says who holds it.
	Wait bool
	// Log gets one line for each step. Default: none.
	Log func(format string, args ...any)
}

// Lab is one running lab; there is one on a machine at a time. Its methods are safe for concurrent use.
type Lab struct {
	dir  string
	log  func(format string, args ...any)
	lock *lock

	mu      sync.Mutex
	closers []func() error // run in reverse order by Close
	closed  bool
}

// New checks the machine, takes the lab of this machine, removes what a killed predecessor left, and sets up the LAN:
// bridge, DHCP and DNS on 10.77.0.1. The caller owes a Close, also on SIGINT and SIGTERM.
func New(ctx context.Context, opts Options) (*Lab, error) {
	dir, err := workDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	if problems := CheckMachine(dir); len(problems) > 0 {
		return nil, fmt.Errorf("this machine cannot run the lab:\n  %s", strings.Join(problems, "\n  "))
	}
	l := &Lab{dir: dir, log: opts.Log}
	if l.log == nil {
		l.log = func(string, ...any) {}
	}
	if l.lock, err = acquire(ctx, dir, opts.Wait, l.log); err != nil {
		return nil, err
	}
	l.onClose(l.lock.release)
	l.onClose(func() error { return removeWork(dir) })
	if err := cleanRecorded(ctx, l.log); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := l.startLAN(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Dir is the work folder; logs are in its log/ and stay after Close, everything else goes.
func (l *Lab) Dir() string { return l.dir }

// Close ends everything and leaves nothing behind but the logs. A second call does nothing.
func (l *Lab) Close() error {
	l.mu.Lock()
	closers, closed := l.closers, l.closed
	l.closers, l.closed = nil, true
	l.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for i := len(closers) - 1; i >= 0; i-- {
		errs = append(errs, closers[i]())
	}
	return errors.Join(errs...)
}

// onClose registers an undo. After Close it runs at once: whoever was still starting something undoes it.
func (l *Lab) onClose(undo func() error) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.closers = append(l.closers, undo)
	}
	l.mu.Unlock()
	if closed {
		_ = undo()
	}
}

func workDir(dir string) (string, error) {
	if dir == "" {
		cache, err := CacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "lab")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("work folder: %w", err)
	}
	for _, covered := range []string{"/run", "/var/run", "/etc/libvirt", "/var/lib/libvirt"} {
		if dir == covered || strings.HasPrefix(dir, covered+"/") {
			return "", fmt.Errorf("work folder %q: each host mounts its own over %s, take another place", dir, covered)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return "", fmt.Errorf("work folder: %w", err)
	}
	return dir, nil
}

// removeWork removes what labs make in their work folder, by name: the folder may be the user's, with other things in it.
func removeWork(dir string) error {
	return errors.Join(
		os.RemoveAll(filepath.Join(dir, "hosts")),
		os.RemoveAll(filepath.Join(dir, "controlplane")),
		ignoreMissing(os.Remove(filepath.Join(dir, "dnsmasq.leases"))),
		os.RemoveAll(hostsRunDir))
}
