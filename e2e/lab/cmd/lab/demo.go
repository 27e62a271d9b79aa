package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/proxyard/proxyard/e2e/stack"
)

// demoTime is for two emulated guests that install squid; with hardware virtualisation they need a minute.
const demoTime = 20 * time.Minute

// demoSamples in the order in which a user would apply them.
var demoSamples = []string{"hypervisor-kvm1.yaml", "hypervisor-kvm2.yaml", "proxy-shop.yaml", "proxy-news.yaml"}

// demo holds the whole product until ctx ends: two hosts, the API, the manager, and two Proxies that serve.
func demo(ctx context.Context, dir string, log func(string, ...any)) (err error) {
	s, err := stack.Start(ctx, stack.Options{Dir: dir, Log: log})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.Close())
		log("closed")
	}()
	if err := serve(ctx, s, log); err != nil {
		return err
	}
	log("%s: the demo runs on in the background", upMark)
	<-ctx.Done()
	return nil
}

// serve applies the samples, waits until they serve, and shows it.
func serve(ctx context.Context, s *stack.Stack, log func(string, ...any)) error {
	log("applying config/samples: %v", demoSamples)
	if err := s.Apply(ctx, demoSamples...); err != nil {
		return err
	}
	log("booting two guests, which install squid from their own cloud-configs; emulated ones take 4 to 8 minutes")
	waiting, cancel := context.WithTimeoutCause(ctx, demoTime, fmt.Errorf("%s are over", demoTime))
	defer cancel()
	proxies, err := s.AwaitReady(waiting, "shop", "news")
	if err != nil {
		return err
	}
	wide, err := s.Kubectl(ctx, "", "get", "hv,px", "-o", "wide")
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl get hv,px -o wide\n%s\n", wide)
	for _, p := range proxies {
		status, err := s.Request(ctx, p.Status.Endpoint, nil)
		if err != nil {
			return fmt.Errorf("request through %s: %w", p.Status.Endpoint, err)
		}
		fmt.Printf("request through %s at %s: %d %s\n", p.Metadata.Name, p.Status.Endpoint, status, http.StatusText(status))
	}
	fmt.Printf(`
Go on with:
  export KUBECONFIG=%s
  kubectl get px -w
  kubectl delete px shop        # the VM and its disks go with it
  make demo-down                # everything ends, nothing stays

`, s.Kubeconfig)
	return nil
}
