package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Kubectl runs kubectl as the administrator and gives what it printed.
func (s *Stack) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig", s.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Proxy is what people look at of one.
type Proxy struct {
	Metadata struct{ Name string }
	Status   struct {
		Phase, Hypervisor, ProviderID, Endpoint string
		Addresses                               []struct{ IP, Source string }
		Boot                                    struct{ CloudInit, SerialTail string }
		Conditions                              []struct{ Type, Status, Reason, Message string }
	}
}

// Condition gives status, reason and message of a condition.
func (p Proxy) Condition(kind string) (status, reason, message string) {
	i := slices.IndexFunc(p.Status.Conditions, func(c struct{ Type, Status, Reason, Message string }) bool { return c.Type == kind })
	if i < 0 {
		return "", "", ""
	}
	c := p.Status.Conditions[i]
	return c.Status, c.Reason, c.Message
}

// String is the one line that progress shows.
func (p Proxy) String() string {
	line := fmt.Sprintf("%s: %s", p.Metadata.Name, cmp.Or(p.Status.Phase, "created"))
	if status, reason, _ := p.Condition("Ready"); status != "" {
		line += " (" + reason + ")"
	}
	if p.Status.Endpoint != "" {
		line += " at " + p.Status.Endpoint
	}
	return line
}

// Proxies lists the Proxies of the default namespace.
func (s *Stack) Proxies(ctx context.Context) ([]Proxy, error) {
	out, err := s.Kubectl(ctx, "", "get", "proxies.proxyard.dev", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct{ Items []Proxy }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("list of Proxies: %w", err)
	}
	return list.Items, nil
}

// AwaitReady waits until the named Proxies are Ready, with a line of progress at each change. What is missing is in the error.
func (s *Stack) AwaitReady(ctx context.Context, names ...string) ([]Proxy, error) {
	shown := map[string]string{}
	for {
		all, err := s.Proxies(ctx)
		all = slices.DeleteFunc(all, func(p Proxy) bool { return !slices.Contains(names, p.Metadata.Name) })
		ready := 0
		for _, p := range all {
			if line := p.String(); shown[p.Metadata.Name] != line {
				shown[p.Metadata.Name] = line
				s.log("  %s", line)
			}
			if status, _, _ := p.Condition("Ready"); status == "True" {
				ready++
			}
		}
		if err == nil && ready == len(names) {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("not Ready: %w", errors.Join(context.Cause(ctx), err, s.why(ctx, all)))
		case <-time.After(time.Second):
		}
	}
}

// why says what each Proxy waits for. Somebody who interrupts knows why, and gets nothing.
func (s *Stack) why(ctx context.Context, all []Proxy) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	var out []error
	for _, p := range all {
		_, reason, message := p.Condition("Ready")
		out = append(out, fmt.Errorf("%s: %s: %s; the console's end: %q", p.Metadata.Name, reason, message, p.Status.Boot.SerialTail))
	}
	return errors.Join(out...)
}
