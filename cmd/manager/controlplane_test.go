//go:build controlplane

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// controlPlaneEnv names the binary of cmd/controlplane; the Makefile sets it.
const controlPlaneEnv = "PROXYARD_CONTROLPLANE"

// configDir is config/ as seen from this package.
const configDir = "../../config"

// cluster is a control plane with exactly what config/ ships installed.
type cluster struct {
	admin       client.Client
	adminConfig *rest.Config
	// account is the way in of the shipped ServiceAccount.
	account *rest.Config
}

// shared is the one control plane of this package's tests. Set by TestMain.
var shared *cluster

func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "proxyard-controlplane-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		stop, err := startControlPlane(dir)
		if err != nil {
			panic(err)
		}
		defer stop()
		if shared, err = install(dir); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

func startControlPlane(dir string) (stop func(), err error) {
	binary := os.Getenv(controlPlaneEnv)
	if binary == "" {
		return nil, errors.New(controlPlaneEnv + " must name the binary of cmd/controlplane")
	}
	cmd := exec.Command(binary, "--dir", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "ready") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return stop, nil
		}
	}
	stop()
	return nil, errors.New("the control plane ended before it was ready")
}

// install applies config/ and gets a token of the manager's account, as a Pod would have it.
func install(dir string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 1000, 1000
	admin, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, part := range []string{"crd/proxyard.dev_*.yaml", "manager/namespace.yaml", "rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml", "manager/deployment.yaml"} {
		if err := apply(ctx, admin, filepath.Join(configDir, part)); err != nil {
			return nil, err
		}
	}
	token := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = defaultNamespace, "proxyard-manager"
	if err := admin.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, err
	}
	limited := rest.AnonymousClientConfig(config)
	limited.BearerToken = token.Status.Token
	limited.QPS, limited.Burst = 50, 100
	return &cluster{admin: admin, adminConfig: config, account: limited}, awaitKinds(ctx, admin)
}

func apply(ctx context.Context, c client.Client, pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return errors.Join(err, errors.New("no file matches "+pattern))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for docs := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
			o := &unstructured.Unstructured{}
			if err := docs.Decode(o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			if len(o.Object) == 0 {
				continue
			}
			if err := c.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitKinds waits until the API server serves the kinds: it takes a moment after their definition.
func awaitKinds(ctx context.Context, c client.Client) error {
	for {
		err := c.List(ctx, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "proxyard.dev/v1alpha1", "kind": "ProxyList"}})
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// namespaced makes a namespace of the test's own.
func namespaced(t *testing.T, name string) string {
	t.Helper()
	ns := &corev1.Namespace{}
	ns.Name = name
	err := shared.admin.Create(t.Context(), ns)
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	return name
}
