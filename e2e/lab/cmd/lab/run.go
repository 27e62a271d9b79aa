package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/proxyard/proxyard/e2e/lab"
)

// outline is what a running lab says of itself, in lab.json of its work folder.
type outline struct {
	Kubeconfig string    `json:"kubeconfig"`
	ImageURL   string    `json:"imageURL"`
	SHA256     string    `json:"imageSHA256"`
	ProbeURL   string    `json:"probeURL"`
	Hosts      []hostRow `json:"hosts"`
}

type hostRow struct {
	Name       string `json:"name"`
	TCP        string `json:"tcp"`
	SSH        string `json:"ssh"`
	Socket     string `json:"socket"`
	PrivateKey string `json:"privateKeyFile"`
	KnownHosts string `json:"knownHostsFile"`
}

// foreground holds a lab until ctx ends. All that it starts ends with it.
func foreground(ctx context.Context, dir string, log func(string, ...any)) (err error) {
	if err := build(ctx, log); err != nil {
		return err
	}
	l, err := lab.New(ctx, lab.Options{Dir: dir, Log: log})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, l.Close())
		log("closed")
	}()
	file := filepath.Join(l.Dir(), "lab.json")
	about, err := start(ctx, l)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("outline of the lab: %w", err)
	}
	defer func() { _ = os.Remove(file) }()
	log("%s: see %s", upMark, file)
	<-ctx.Done()
	return nil
}

func start(ctx context.Context, l *lab.Lab) (outline, error) {
	image, err := l.Image(ctx)
	if err != nil {
		return outline{}, err
	}
	about := outline{ImageURL: image.URL, SHA256: image.SHA256, ProbeURL: lab.ProbeURL}
	if err := l.Serve(ctx); err != nil {
		return outline{}, err
	}
	for i, name := range []string{"kvm1", "kvm2"} {
		h, err := l.Host(ctx, lab.HostOptions{Name: name, N: 11 + i})
		if err != nil {
			return outline{}, err
		}
		about.Hosts = append(about.Hosts, hostRow{h.Name, h.TCP, h.SSH, h.Socket, h.PrivateKeyFile, h.KnownHostsFile})
	}
	about.Kubeconfig, err = l.ControlPlane(ctx)
	return about, err
}

// background starts another command of this program in a session of its own, shows its log until it is up, and leaves it there.
func background(ctx context.Context, command, dir string, log func(string, ...any)) error {
	held, err := lab.Running()
	if err != nil {
		return err
	}
	if held != nil {
		return fmt.Errorf("process %d holds the lab of this machine; `make demo-down` ends it", held.PID)
	}
	if err := lab.InstallPackages(ctx, log); err != nil {
		return err
	}
	if err := build(ctx, log); err != nil { // here, so that Ctrl-C ends the build
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	args := []string{command}
	if dir != "" {
		args = append(args, dir)
	}
	cmd := exec.Command(self, args...) //nolint:noctx // the lab outlives this command
	out, err := os.CreateTemp("", "proxyard-lab-*.log")
	if err != nil {
		return fmt.Errorf("log of the lab: %w", err)
	}
	defer func() { _ = os.Remove(out.Name()); _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the lab: %w", err)
	}
	return follow(ctx, cmd, out.Name())
}

// follow copies the log of the lab until it is up, ends, or ctx ends: then the lab is ended as well.
func follow(ctx context.Context, cmd *exec.Cmd, name string) error {
	var err error
	ended := make(chan struct{})
	go func() { err = cmd.Wait(); close(ended) }()
	shown := 0
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if show(name, &shown) {
				return nil
			}
		case <-ended:
			show(name, &shown)
			return fmt.Errorf("not up, for the reason above: %w", err)
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-ended
			show(name, &shown)
			return ctx.Err()
		}
	}
}
