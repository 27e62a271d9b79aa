package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// Defaults that are no zero values.
const (
	// defaultNamespace is the operator's when neither the flag nor the Pod says so.
	defaultNamespace = "proxyard-system"
	// namespaceFile holds a Pod's own namespace.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	// defaultProbeURL answers 204 with an empty body, which no captive portal does.
	defaultProbeURL = "http://www.gstatic.com/generate_204"
	// leaseName is what managers of one cluster compete for.
	leaseName = "proxyard-manager"
)

// options are the flags.
type options struct {
	kubeconfig                string
	metricsAddr, healthAddr   string
	leaderElect               bool
	clusterID, namespace      string
	pollInterval              time.Duration
	probeURL                  string
	probeConcurrency, workers int
	qps                       float64
	burst                     int
	logLevel                  zapcore.Level
	logFormat                 string
	stopTimeout               time.Duration
}

// parseFlags reads the flags; env is os.Getenv, for what a Pod is told about itself.
func parseFlags(args []string, env func(string) string) (options, error) {
	var o options
	fs := flag.NewFlagSet("manager", flag.ContinueOnError)
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: $KUBECONFIG, else the Pod's own account")
	fs.StringVar(&o.metricsAddr, "metrics-bind-address", ":8080", "address of /metrics; 0 turns it off")
	fs.StringVar(&o.healthAddr, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns it off")
	fs.BoolVar(&o.leaderElect, "leader-elect", false, "let one of several managers lead; only the leader connects to hosts")
	fs.StringVar(&o.clusterID, "cluster-id", "", "identity of this installation on the hosts; empty: the UID of the namespace kube-system. Never change it while machines exist")
	fs.StringVar(&o.namespace, "namespace", "", "the operator's own namespace, with the hypervisors' credentials and the lease; empty: the Pod's, else "+defaultNamespace)
	fs.DurationVar(&o.pollInterval, "poll-interval", 10*time.Second, "how often a hypervisor's state is read in bulk")
	fs.StringVar(&o.probeURL, "probe-url", defaultProbeURL, "what is requested through Proxies without spec.health.url; the manager must reach it without a proxy, too")
	fs.IntVar(&o.probeConcurrency, "probe-concurrency", 64, "probes in flight")
	fs.IntVar(&o.workers, "max-concurrent-reconciles", 8, "reconciles in flight, of each kind")
	fs.Float64Var(&o.qps, "kube-api-qps", 50, "requests a second to the API server")
	fs.IntVar(&o.burst, "kube-api-burst", 100, "requests to the API server in a burst")
	fs.TextVar(&o.logLevel, "log-level", zapcore.InfoLevel, "debug, info, warn or error")
	fs.StringVar(&o.logFormat, "log-format", "json", "json or console")
	fs.DurationVar(&o.stopTimeout, "graceful-stop-timeout", 20*time.Second, "how long what is under way may take after SIGTERM")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: there are only flags", fs.Arg(0))
	}
	if o.namespace == "" {
		o.namespace = ownNamespace(env)
	}
	return o, o.validate()
}

func (o options) validate() error {
	u, err := url.Parse(o.probeURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("--probe-url %q: give an http:// or https:// URL", o.probeURL)
	case o.logFormat != "json" && o.logFormat != "console":
		return fmt.Errorf("--log-format %q: give json or console", o.logFormat)
	case o.pollInterval < time.Second:
		return fmt.Errorf("--poll-interval %s: give at least 1s", o.pollInterval)
	case o.probeConcurrency < 1 || o.workers < 1:
		return fmt.Errorf("--probe-concurrency and --max-concurrent-reconciles must be at least 1")
	}
	return nil
}

func ownNamespace(env func(string) string) string {
	if ns := env("POD_NAMESPACE"); ns != "" {
		return ns
	}
	if data, err := os.ReadFile(namespaceFile); err == nil {
		if ns := strings.TrimSpace(string(data)); ns != "" {
			return ns
		}
	}
	return defaultNamespace
}
