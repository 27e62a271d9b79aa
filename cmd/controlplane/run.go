package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/klog/v2"
)

const (
	// readyTimeout bounds the start: seconds are normal, a minute is a machine with other work to do.
	readyTimeout = 2 * time.Minute
	// stopTimeout bounds the graceful stop: an open watch would otherwise hold the API server for its own minute.
	stopTimeout = 5 * time.Second
)

type options struct {
	dir, bindAddress, serviceCIDR string
	port                          int
}

// run starts etcd and the API server, writes dir/admin.kubeconfig when /readyz is ok, prints one line, and stops both when ctx ends.
func run(ctx context.Context, opts options) error {
	started := time.Now()
	if err := os.MkdirAll(opts.dir, 0o700); err != nil {
		return fmt.Errorf("create --dir: %w", err)
	}
	kubeconfig := filepath.Join(opts.dir, "admin.kubeconfig")
	if err := os.Remove(kubeconfig); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the kubeconfig of an earlier run: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(opts.dir, "controlplane.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { klog.Flush(); _ = log.Close() }()
	if err := logTo(log); err != nil {
		return err
	}

	store, err := startEtcd(ctx, opts.dir)
	if err != nil {
		return err
	}
	defer store.close()

	// The listener is made here, not by the API server: so port 0 gives a free port that nobody can take in between.
	listener, err := net.Listen("tcp", net.JoinHostPort(opts.bindAddress, strconv.Itoa(opts.port)))
	if err != nil {
		return fmt.Errorf("listen for the API: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return serve(ctx, opts, listener, store.endpoint, kubeconfig, started)
}

func serve(ctx context.Context, opts options, listener net.Listener, etcd, kubeconfig string, started time.Time) error {
	ident, err := newIdentity(opts.dir, opts.bindAddress)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := runAPIServer(ctx, opts, ident, listener, etcd)
		cancel()
		ended <- err
	}()

	admin := ident.admin(listener.Addr().String())
	if err := waitReady(ctx, admin); err != nil {
		cancel()
		return errors.Join(err, <-ended)
	}
	if err := writeKubeconfig(kubeconfig, admin); err != nil {
		return err
	}
	fmt.Printf("ready after %.1fs: https://%s  kubeconfig %s\n", time.Since(started).Seconds(), listener.Addr(), kubeconfig)

	<-ctx.Done()
	select {
	case err := <-ended:
		return err
	case <-time.After(stopTimeout):
		return nil // the rest of it is open watches, and they end with the process
	}
}

// logTo sends the API server's log to w alone: what it calls errors while it starts would drown the one line that counts.
func logTo(w io.Writer) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("set up the log: %w", err)
		}
	}
	klog.SetOutput(w)
	return nil
}
