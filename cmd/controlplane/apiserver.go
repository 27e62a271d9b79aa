package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// issuer names the signer of ServiceAccount tokens; TokenRequest gives out no token without one.
const issuer = "https://kubernetes.default.svc"

// runAPIServer serves on listener until ctx ends. It does what app.NewAPIServerCommand does, without its own signal handling
// and with a listener that is already open.
func runAPIServer(ctx context.Context, opts options, ident *identity, listener net.Listener, etcd string) error {
	server := apioptions.NewServerRunOptions()
	server.SecureServing.Listener = listener
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range server.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(apiServerFlags(opts, ident, etcd)); err != nil {
		return fmt.Errorf("flags of the API server: %w", err)
	}
	if err := server.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("feature gates of the API server: %w", err)
	}
	// As the original does: the server's clients of itself have no user to warn.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := server.Complete(ctx)
	if err != nil {
		return fmt.Errorf("options of the API server: %w", err)
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return fmt.Errorf("options of the API server: %w", utilerrors.NewAggregate(errs))
	}
	if err := app.Run(ctx, completed); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run the API server: %w", err)
	}
	return nil
}

func apiServerFlags(opts options, ident *identity, etcd string) []string {
	return []string{
		"--etcd-servers=" + etcd,
		"--bind-address=" + opts.bindAddress,
		// The address would be published as the endpoint of the Service "kubernetes". No Pod asks for it here, and finding
		// one needs a default route, which a machine without network lacks: so neither published nor searched for.
		"--advertise-address=" + advertised(opts.bindAddress),
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + opts.serviceCIDR,
		"--cert-dir=" + filepath.Join(opts.dir, "certs"),
		"--tls-cert-file=" + ident.certFile,
		"--tls-private-key-file=" + ident.keyFile,
		"--token-auth-file=" + ident.tokenFile,
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + ident.accountKeyFile,
		"--service-account-signing-key-file=" + ident.accountKeyFile,
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--shutdown-send-retry-after=true", // open watches get 2 s at the end instead of a minute
	}
}

// advertised is bind, except where the API server refuses to publish it.
func advertised(bind string) string {
	if ip := net.ParseIP(bind); ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		return "192.0.2.1" // reserved for documentation (RFC 5737): leads nowhere, and nobody is told
	}
	return bind
}
