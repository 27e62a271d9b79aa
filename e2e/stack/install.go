package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/proxyard/proxyard/e2e/lab"
)

const (
	namespace      = "proxyard-system"
	serviceAccount = "proxyard-manager"
	// healthAddr is where the manager of a stack says that it is ready.
	healthAddr = "127.0.0.1:18081"
	// managerTimeout: a few seconds are normal.
	managerTimeout = time.Minute
	// tokenSeconds is how long the manager of a demo can go on.
	tokenSeconds = 7 * 24 * 3600
	// samplesChecksum is what the samples have in place of the image's checksum.
	samplesChecksum = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// install applies what config/ ships, but for the Deployment: the lab's API has no nodes, so the manager runs beside it.
func (s *Stack) install(ctx context.Context) error {
	for _, part := range []string{"manager/namespace.yaml", "crd", "rbac"} {
		flag := "-k"
		if strings.HasSuffix(part, ".yaml") {
			flag = "-f"
		}
		if _, err := s.Kubectl(ctx, "", "apply", flag, filepath.Join(s.root, "config", part)); err != nil {
			return err
		}
	}
	if _, err := s.Kubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=30s", "crd/proxies.proxyard.dev", "crd/hypervisors.proxyard.dev"); err != nil {
		return err
	}
	if err := s.writeManagerKubeconfig(ctx); err != nil {
		return err
	}
	_, err := s.Kubectl(ctx, "", "-n", namespace, "create", "secret", "generic", "kvm1",
		"--from-file=ssh-privatekey="+s.Hosts[0].PrivateKeyFile, "--from-file=known_hosts="+s.Hosts[0].KnownHostsFile)
	s.log("CRDs, RBAC and the credentials of kvm1 applied")
	return err
}

// writeManagerKubeconfig gives the manager a token of the shipped ServiceAccount, as its Pod would have, and nothing else.
func (s *Stack) writeManagerKubeconfig(ctx context.Context) error {
	request := fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":%d}}`, tokenSeconds)
	out, err := s.Kubectl(ctx, request, "create", "--raw", "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+serviceAccount+"/token", "-f", "-")
	if err != nil {
		return err
	}
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(out), &token); err != nil {
		return fmt.Errorf("token of the manager: %w", err)
	}
	admin, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		return fmt.Errorf("administrator's kubeconfig: %w", err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(admin, &config); err != nil {
		return fmt.Errorf("administrator's kubeconfig: %w", err)
	}
	users, ok := config["users"].([]any)
	if !ok || len(users) != 1 {
		return fmt.Errorf("administrator's kubeconfig: want one user")
	}
	user, ok := users[0].(map[string]any)
	if !ok {
		return fmt.Errorf("administrator's kubeconfig: the user is no mapping")
	}
	user["user"] = map[string]any{"token": token.Status.Token}
	out2, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("manager's kubeconfig: %w", err)
	}
	s.ManagerKubeconfig = filepath.Join(filepath.Dir(s.Kubeconfig), "manager.kubeconfig")
	if err := os.WriteFile(s.ManagerKubeconfig, out2, 0o600); err != nil {
		return fmt.Errorf("manager's kubeconfig: %w", err)
	}
	return nil
}

// StartManager starts the manager and waits until it is ready.
func (s *Stack) StartManager(ctx context.Context) (err error) {
	s.manager, err = s.Lab.Program("manager", s.binary, "--kubeconfig="+s.ManagerKubeconfig, "--namespace="+namespace,
		"--metrics-bind-address=127.0.0.1:18080", "--health-probe-bind-address="+healthAddr, "--leader-elect", "--probe-url="+lab.ProbeURL)
	if err != nil {
		return err
	}
	err = s.manager.Await(ctx, managerTimeout, func() bool {
		resp, err := http.Get("http://" + healthAddr + "/readyz") //nolint:noctx // loopback, and Await bounds it
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	s.log("manager ready as ServiceAccount %s, log %s", serviceAccount, s.manager.Log())
	return err
}

// Manager is the running manager.
func (s *Stack) Manager() *lab.Program { return s.manager }

// Sample reads a file of config/samples with the lab's image filled in.
func (s *Stack) Sample(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(s.root, "config", "samples", name))
	if err != nil {
		return "", fmt.Errorf("sample: %w", err)
	}
	return strings.ReplaceAll(string(data), samplesChecksum, "sha256:"+s.Image.SHA256), nil
}

// Apply applies samples by their file names.
func (s *Stack) Apply(ctx context.Context, names ...string) error {
	for _, name := range names {
		doc, err := s.Sample(name)
		if err != nil {
			return err
		}
		if _, err := s.Kubectl(ctx, doc, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

func requestThrough(ctx context.Context, proxy *url.URL, target string) (int, error) {
	client := &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
