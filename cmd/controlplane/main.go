// Command controlplane is a Kubernetes API in one process: kube-apiserver with an embedded etcd, RBAC on, nothing downloaded.
// The demo and the tests start it through e2e/lab; nothing of the product depends on it, which is why it has a go.mod of its own.
//
// No controller-manager runs beside it. Whoever needs them must therefore do three things themselves: create ServiceAccounts
// (also a namespace's "default" one), ask for their tokens by the TokenRequest API, and expect that a deleted namespace stays
// Terminating and that owner references collect nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	opts := options{}
	flag.StringVar(&opts.dir, "dir", "", "folder for data, keys, log and admin.kubeconfig (required; created with mode 0700)")
	flag.StringVar(&opts.bindAddress, "bind-address", "127.0.0.1", "address to serve the API on")
	flag.IntVar(&opts.port, "port", 0, "port to serve the API on; 0 takes a free one")
	flag.StringVar(&opts.serviceCIDR, "service-cluster-ip-range", "10.96.0.0/16", "range of the cluster IPs of Services")
	parent := flag.Int("parent-pid", 0, "stop when the parent process is no longer this one; 0 turns it off")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *parent != 0 {
		ctx = withParent(ctx, *parent)
	}
	if err := start(ctx, opts, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

// start checks what flags alone cannot and runs until ctx ends.
func start(ctx context.Context, opts options, rest []string) error {
	if len(rest) != 0 {
		return fmt.Errorf("unexpected argument %q: there are only flags", rest[0])
	}
	if opts.dir == "" {
		return fmt.Errorf("--dir is required: the folder for data and admin.kubeconfig")
	}
	dir, err := filepath.Abs(opts.dir)
	if err != nil {
		return fmt.Errorf("resolve --dir: %w", err)
	}
	opts.dir = dir
	return run(ctx, opts)
}

// withParent ends ctx once the parent of this process has changed, so that a killed test leaves no API server behind.
// A poll rather than PR_SET_PDEATHSIG: that signal follows the parent's thread, and Go programs come and go on threads.
func withParent(ctx context.Context, pid int) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for os.Getppid() == pid {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return ctx
}
