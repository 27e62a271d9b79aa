package lab

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// controlPlaneTimeout: 5 s are normal.
const controlPlaneTimeout = 2 * time.Minute

// module is how the root of the checkout is recognised.
const module = "module github.com/proxyard/proxyard"

// BuildControlPlane gives the path of the controlplane program, built from this checkout. The first build on a machine compiles
// the whole API server: about 12 minutes on two cores.
func BuildControlPlane(ctx context.Context, log func(format string, args ...any)) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "cmd", "controlplane")
	inputs, err := sourceFiles(source)
	if err != nil {
		return "", err
	}
	dir, err := artifact{name: "controlplane", inputs: append(inputs, runtime.Version()), build: func(ctx context.Context, into string) error {
		return runBuild(ctx, source, log, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(into, "controlplane"), ".")
	}}.get(ctx, log)
	return filepath.Join(dir, "controlplane"), err
}

// ControlPlane starts a Kubernetes API and gives the path of its admin kubeconfig. Close ends it.
func (l *Lab) ControlPlane(ctx context.Context) (kubeconfig string, err error) {
	program, err := BuildControlPlane(ctx, l.log)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(l.dir, "controlplane")
	started := time.Now()
	p, err := l.startProcess("controlplane", program, "--dir", dir, "--parent-pid", strconv.Itoa(os.Getpid()))
	if err != nil {
		return "", err
	}
	l.onClose(func() error { return p.stop(killGrace) })
	kubeconfig = filepath.Join(dir, "admin.kubeconfig")
	if err := p.await(ctx, controlPlaneTimeout, func() bool { return exists(kubeconfig) }); err != nil {
		return "", err
	}
	l.log("Kubernetes API ready, kubeconfig %s (%.1fs)", kubeconfig, time.Since(started).Seconds())
	return kubeconfig, nil
}

// moduleRoot is the folder of the project's go.mod, from the current folder upwards.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if line, _, _ := strings.Cut(string(data), "\n"); err == nil && line == module {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no checkout of proxyard at or above %q: run this inside one", start)
		}
	}
}

// sourceFiles gives names and contents of all files of a folder: what a build from it depends on.
func sourceFiles(dir string) ([]string, error) {
	var inputs []string
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		inputs = append(inputs, path, string(data))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sources in %q: %w", dir, err)
	}
	return inputs, nil
}

// Checkout is the root of the checkout at or above the current folder.
func Checkout() (string, error) { return moduleRoot() }
