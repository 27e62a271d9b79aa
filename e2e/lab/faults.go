package lab

import (
	"context"
	"fmt"
	"strconv"
)

// StopLibvirtd ends libvirtd in order; guests run on. A client sees the connection closed, a new one refused.
func (h *Host) StopLibvirtd(ctx context.Context) error { return h.signal(ctx, "TERM", true) }

// KillLibvirtd is StopLibvirtd without the order: kill -9.
func (h *Host) KillLibvirtd(ctx context.Context) error { return h.signal(ctx, "KILL", true) }

// StartLibvirtd starts a libvirtd that was stopped or killed, and returns when it listens.
func (h *Host) StartLibvirtd(ctx context.Context) error {
	return h.inside(ctx, "libvirtd -d -l")
}

// RestartLibvirtd is StopLibvirtd and StartLibvirtd.
func (h *Host) RestartLibvirtd(ctx context.Context) error {
	if err := h.StopLibvirtd(ctx); err != nil {
		return err
	}
	return h.StartLibvirtd(ctx)
}

// Pause freezes libvirtd: it accepts connections (the kernel does) and never answers.
func (h *Host) Pause(ctx context.Context) error { return h.signal(ctx, "STOP", false) }

// Continue ends Pause.
func (h *Host) Continue(ctx context.Context) error { return h.signal(ctx, "CONT", false) }

// LinkDown makes the host a black hole: packets to it get no answer at all, not even a refusal.
func (h *Host) LinkDown(ctx context.Context) error {
	return runAll(ctx, "ip -n "+h.netns+" link set eth0 down")
}

// LinkUp ends LinkDown.
func (h *Host) LinkUp(ctx context.Context) error {
	return runAll(ctx, "ip -n "+h.netns+" link set eth0 up")
}

// MountTmpfs mounts a small file system over a folder of the host, for pools that fill up. It ends with the host.
func (h *Host) MountTmpfs(ctx context.Context, dir, size string) error {
	return h.inside(ctx, "mount -t tmpfs -o size="+size+" tmpfs "+dir)
}

// signal reaches libvirtd by its pid file inside the host's own process namespace: no other process can be hit.
func (h *Host) signal(ctx context.Context, name string, wait bool) error {
	script := `pid=$(cat /run/libvirtd.pid) && kill -` + name + ` "$pid"`
	if wait {
		script += ` && while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done; rm -f /run/libvirtd.pid`
	}
	return h.inside(ctx, script)
}

// inside runs a shell line in all of the host's namespaces.
func (h *Host) inside(ctx context.Context, script string) error {
	proc := "/proc/" + strconv.Itoa(h.process.cmd.Process.Pid) + "/ns/"
	_, err := run(ctx, "nsenter", "--net="+proc+"net", "--mount="+proc+"mnt", "--pid="+proc+"pid_for_children", "bash", "-c", script)
	if err != nil {
		return fmt.Errorf("inside host %s: %w", h.Name, err)
	}
	return nil
}
