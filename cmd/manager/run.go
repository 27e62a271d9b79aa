package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/controllers/hypervisor"
	"github.com/proxyard/proxyard/controllers/proxy"
	"github.com/proxyard/proxyard/pkg/index"
	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm"
)

// startTimeout bounds what is asked of the API server before the manager starts.
const startTimeout = 30 * time.Second

// run connects to the cluster, puts the program together and runs it until ctx ends.
func run(ctx context.Context, o options) error {
	logger := newLogger(o)
	log.SetLogger(logger)
	klog.SetLogger(logger.WithName("client-go"))
	config, err := restConfig(o)
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	if o.clusterID == "" {
		if o.clusterID, err = clusterID(ctx, config); err != nil {
			return err
		}
	}
	provider, err := kvm.New(kvm.Options{
		ClusterID: o.clusterID, Log: slog.New(logr.ToSlogHandler(logger.WithName("kvm"))), PollInterval: o.pollInterval, Metrics: metrics.Registry,
	})
	if err != nil {
		return fmt.Errorf("provider kvm: %w", err)
	}
	defer provider.Close() // for a manager that never led; a leader closes it while it still holds the lease
	logger.Info("starting", "version", version, "clusterID", o.clusterID, "namespace", o.namespace)
	return start(ctx, config, o, logger, provider)
}

// hostProvider is a provider whose machines live on the Hypervisors' hosts, and which can be closed.
type hostProvider interface {
	providers.Provider
	providers.HostSource
	Close()
}

// closer ends what the provider does in the background before the lease goes to the next leader: two managers must not work
// on one host.
type closer struct{ provider hostProvider }

func (c closer) NeedLeaderElection() bool { return true }

func (c closer) Start(ctx context.Context) error {
	<-ctx.Done()
	c.provider.Close()
	return nil
}

// start runs the controllers over the provider.
func start(ctx context.Context, config *rest.Config, o options, logger logr.Logger, provider hostProvider) error {
	registry, err := providers.NewRegistry(provider)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, managerOptions(o, logger))
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index proxies: %w", err)
	}
	if err := setUp(mgr, o, provider, registry); err != nil {
		return err
	}
	if err := mgr.Add(closer{provider}); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func setUp(mgr ctrl.Manager, o options, hosts providers.HostSource, registry providers.Registry) error {
	recorder := mgr.GetEventRecorder("proxyard")
	err := hypervisor.New(hypervisor.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: recorder, Source: hosts, Namespace: o.namespace,
	}).SetupWithManager(mgr, o.workers)
	if err != nil {
		return fmt.Errorf("hypervisor controller: %w", err)
	}
	err = proxy.New(proxy.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: recorder, Providers: registry, ClusterID: o.clusterID,
		ProbeURL: o.probeURL, ProbeConcurrency: o.probeConcurrency,
	}).SetupWithManager(mgr, o.workers)
	if err != nil {
		return fmt.Errorf("proxy controller: %w", err)
	}
	return nil
}

func managerOptions(o options, logger logr.Logger) ctrl.Options {
	return ctrl.Options{
		Scheme:                  newScheme(),
		Logger:                  logger,
		Metrics:                 metricsserver.Options{BindAddress: o.metricsAddr},
		HealthProbeBindAddress:  o.healthAddr,
		LeaderElection:          o.leaderElect,
		LeaderElectionID:        leaseName,
		LeaderElectionNamespace: o.namespace,
		// The process ends when the manager does, so the lease can go at once and the next leader need not wait for it.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &o.stopTimeout,
		// Secrets and ConfigMaps are read one by one: a cache would list and hold every Secret of the cluster.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	}
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	// Neither can fail: both only add types to an empty scheme.
	_ = clientgoscheme.AddToScheme(scheme)
	_ = v1alpha1.AddToScheme(scheme)
	return scheme
}

func restConfig(o options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = float32(o.qps), o.burst
	config.UserAgent = "proxyard-manager/" + version
	return config, nil
}

// clusterID is the UID of kube-system: it exists in every cluster, and a cluster restored elsewhere is another one.
func clusterID(ctx context.Context, config *rest.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return "", fmt.Errorf("connect to the API server: %w", err)
	}
	var ns corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("read the cluster's identity: %w; or give --cluster-id", err)
	}
	return string(ns.UID), nil
}

func newLogger(o options) logr.Logger {
	encoder := zap.JSONEncoder()
	if o.logFormat == "console" {
		encoder = zap.ConsoleEncoder()
	}
	return zap.New(zap.Level(o.logLevel), encoder, func(z *zap.Options) { z.TimeEncoder = zapcore.RFC3339NanoTimeEncoder })
}
