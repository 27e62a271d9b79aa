package lab

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// CacheDir is where builds are kept, outside the checkout: $PROXYARD_CACHE, else proxyard in $XDG_CACHE_HOME or ~/.cache.
func CacheDir() (string, error) {
	if dir := os.Getenv("PROXYARD_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache folder: %w (set PROXYARD_CACHE)", err)
	}
	return filepath.Join(dir, "proxyard"), nil
}

// artifact is something that takes minutes to build and depends on its inputs alone.
type artifact struct {
	name   string // of the folder in the cache, and in the log
	inputs []string
	build  func(ctx context.Context, into string) error
}

// get returns the folder of the artifact, built now if no earlier build had the same inputs. An interrupted build leaves nothing
// that looks like a result, and of two builds at a time one waits for the other.
func (a artifact) get(ctx context.Context, log func(string, ...any)) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	dir := filepath.Join(cache, a.name+"-"+digest(a.inputs))
	unlock, err := lockFile(ctx, filepath.Join(cache, a.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) {
		return dir, nil
	}
	started := time.Now()
	log("building %s", a.name)
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", fmt.Errorf("remove an unfinished build: %w", err)
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	if err := a.build(ctx, part); err != nil {
		return "", errors.Join(fmt.Errorf("build %s: %w", a.name, err), os.RemoveAll(part))
	}
	if err := os.Rename(part, dir); err != nil {
		return "", fmt.Errorf("keep %s: %w", a.name, err)
	}
	log("built %s (%.0fs)", a.name, time.Since(started).Seconds())
	return dir, nil
}

// digest is short: it tells builds of one machine apart, it proves nothing.
func digest(inputs []string) string {
	hash := sha256.New()
	for _, input := range inputs {
		_, _ = fmt.Fprintf(hash, "%d\n%s", len(input), input) // the length keeps "ab","c" apart from "a","bc"
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the cache: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the cache: %w", err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another build holds %s: %w", name, ctx.Err()), file.Close())
		case <-time.After(time.Second):
		}
	}
}

// runBuild runs a build command with its whole process group under ctx, and logs its "==> " lines with the time since the start.
func runBuild(ctx context.Context, dir string, log func(string, ...any), argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	// As in startProcess: the build ends with this process, and the death signal needs this thread to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killGrace
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	started, output := time.Now(), new(strings.Builder)
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(reader)
		for scanner.Scan() {
			fmt.Fprintln(output, scanner.Text())
			if step, ok := strings.CutPrefix(scanner.Text(), "==> "); ok {
				log("  %4.0fs  %s", time.Since(started).Seconds(), step)
			}
		}
		_, _ = io.Copy(io.Discard, reader) // a line too long for the scanner must not stop the build
	}()
	err := cmd.Run()
	_ = writer.Close()
	<-lines
	if err != nil {
		return fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), tail(output.String()))
	}
	return nil
}
