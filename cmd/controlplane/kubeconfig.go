package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// admin is how a client with every right reaches the API at address (host:port).
func (id *identity) admin(address string) *rest.Config {
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return &rest.Config{Host: "https://" + address, BearerToken: id.token, TLSClientConfig: rest.TLSClientConfig{CAData: id.ca}}
}

// waitReady returns when /readyz says ok: hooks have run, RBAC's own roles and the system namespaces exist.
func waitReady(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("the API was not ready in %s: see controlplane.log", readyTimeout))
	defer cancel()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("client for /readyz: %w", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx, client, config.Host) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for /readyz: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

func ready(ctx context.Context, client *http.Client, host string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// writeKubeconfig puts the file in place in one step: whoever waits for it never reads half of it.
func writeKubeconfig(name string, config *rest.Config) error {
	const entry = "proxyard"
	file := clientcmdapi.NewConfig()
	file.Clusters[entry] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[entry] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	file.Contexts[entry] = &clientcmdapi.Context{Cluster: entry, AuthInfo: entry}
	file.CurrentContext = entry
	part := name + ".part"
	if err := clientcmd.WriteToFile(*file, part); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := os.Rename(part, name); err != nil {
		return fmt.Errorf("publish kubeconfig: %w", err)
	}
	return nil
}
