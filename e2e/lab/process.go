package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// killGrace is how long a daemon may take to end after SIGTERM.
const killGrace = 10 * time.Second

// process is a daemon of the lab: it dies with this process, whatever ends it, and is not reached by the terminal's Ctrl-C.
type process struct {
	cmd  *exec.Cmd
	name string
	log  string
	done chan struct{} // closed when it has ended
}

// startProcess starts a daemon that writes to log/<name>.log of the work folder.
func (l *Lab) startProcess(name string, argv ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(l.dir, "log", name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(argv[0], argv[1:]...) //nolint:noctx // a daemon outlives the call that starts it, and has an end of its own
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		// The death signal comes when the *thread* that started the child ends: this one stays for as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// contained runs a program in a process namespace of its own, as a child of bash. For daemons that give up privileges: by that they
// lose the parent-death signal, while bash keeps it, and takes the whole namespace along.
func contained(argv ...string) []string {
	return append([]string{
		"unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc",
		"bash", "-c", `"$@"; exit $?`, "contained",
	}, argv...) // not the last command, or bash would become the program itself
}

// stop ends the process: politely first, unless grace is 0.
func (p *process) stop(grace time.Duration) error {
	if grace > 0 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return nil
		case <-time.After(grace):
		}
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// await returns once ready says so; it fails when the process ends first, with the end of its log.
func (p *process) await(ctx context.Context, timeout time.Duration, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		// A stranger that answers in its place makes nothing ready.
		select {
		case <-p.done:
			return fmt.Errorf("%s ended early: %s", p.name, p.logTail())
		default:
		}
		if ready() {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended early: %s", p.name, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %s", p.name, ctx.Err(), p.logTail())
		case <-tick.C:
		}
	}
}

func (p *process) logTail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if text := strings.TrimSpace(string(data[max(0, len(data)-1000):])); text != "" {
		return text
	}
	return "its log is empty"
}

// run runs a command to its end and gives what it printed; the error has what it complained about.
func run(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// runAll runs commands one after the other, each given as one line without quoting.
func runAll(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		if _, err := run(ctx, strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}
