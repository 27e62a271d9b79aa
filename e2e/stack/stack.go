// Package stack is the whole product on one machine: a lab with two libvirt hosts and a Kubernetes API (package lab), the
// shipped CRDs and RBAC, the manager under its own ServiceAccount, and the samples. The demo and the e2e suite are its callers,
// so that what people see first is what is tested.
package stack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/proxyard/proxyard/e2e/lab"
)

// Options of a stack.
type Options struct {
	// Dir is the lab's work folder, Wait makes Start wait for another lab to end: see lab.Options.
	Dir  string
	Wait bool
	// Log gets one line for each step.
	Log func(format string, args ...any)
}

// Stack is a running one. The caller owes a Close.
type Stack struct {
	Lab   *lab.Lab
	Image lab.Image
	// Hosts are kvm1, reached over ssh with a pinned host key and with a routed network, and kvm2, reached over tcp and with
	// a bridge that knows no leases.
	Hosts []*lab.Host
	// Kubeconfig is the administrator's, ManagerKubeconfig that of the shipped ServiceAccount.
	Kubeconfig, ManagerKubeconfig string

	root, binary string
	manager      *lab.Program
	log          func(format string, args ...any)
}

// Start builds what is not in the cache, and brings everything up but the samples.
func Start(ctx context.Context, o Options) (s *Stack, err error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	s = &Stack{log: o.Log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := lab.InstallPackages(ctx, o.Log); err != nil {
		return s, err
	}
	if s.Image, err = lab.BuildImage(ctx, o.Log); err != nil {
		return s, err
	}
	if _, err = lab.BuildControlPlane(ctx, o.Log); err != nil {
		return s, err
	}
	if s.Lab, err = lab.New(ctx, lab.Options{Dir: o.Dir, Wait: o.Wait, Log: o.Log}); err != nil {
		return s, err
	}
	for _, step := range []func(context.Context) error{
		s.buildManager, s.Lab.Serve, s.startHosts, s.startAPI, s.install, s.StartManager,
	} {
		if err := step(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Close ends everything and leaves nothing but the logs.
func (s *Stack) Close() error {
	if s.Lab == nil {
		return nil
	}
	return s.Lab.Close()
}

func (s *Stack) buildManager(ctx context.Context) (err error) {
	started := time.Now()
	if s.root, err = lab.Checkout(); err != nil {
		return err
	}
	s.binary = filepath.Join(s.Lab.Dir(), "manager")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "./cmd/manager")
	cmd.Dir, cmd.Env = s.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the manager: %w: %s", err, out)
	}
	s.log("manager built (%.1fs)", time.Since(started).Seconds())
	return nil
}

func (s *Stack) startHosts(ctx context.Context) error {
	for i, name := range []string{"kvm1", "kvm2"} {
		h, err := s.Lab.Host(ctx, lab.HostOptions{Name: name, N: 11 + i})
		if err != nil {
			return err
		}
		s.Hosts = append(s.Hosts, h)
	}
	return nil
}

func (s *Stack) startAPI(ctx context.Context) (err error) {
	s.Kubeconfig, err = s.Lab.ControlPlane(ctx)
	return err
}

// Request asks the lab's 204 server through a proxy, as a user if there is one, and returns the HTTP status.
func (s *Stack) Request(ctx context.Context, endpoint string, user *url.Userinfo) (int, error) {
	return requestThrough(ctx, &url.URL{Scheme: "http", Host: endpoint, User: user}, lab.ProbeURL)
}
