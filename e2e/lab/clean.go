package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Clean removes what a killed lab left on this machine. It fails when a lab is running.
func Clean(ctx context.Context, log func(format string, args ...any)) error {
	if os.Geteuid() != 0 {
		return errors.New("cleaning up the lab needs root")
	}
	held, err := acquire(ctx, "", false, log)
	if err != nil {
		return err
	}
	return errors.Join(cleanRecorded(ctx, log), held.file.Close())
}

// cleanRecorded removes exactly what the record names; the caller holds the lock, so its maker is dead.
func cleanRecorded(ctx context.Context, log func(string, ...any)) error {
	r, err := readRecord()
	if err != nil || r.PID == 0 {
		return err
	}
	log("cleaning up after the lab of process %d, which was killed", r.PID)
	var errs []error
	for _, link := range r.Links {
		errs = append(errs, deleteLink(ctx, link))
	}
	for _, ns := range r.Netns {
		errs = append(errs, deleteNetns(ctx, ns))
	}
	if r.Dir != "" {
		errs = append(errs, removeWork(r.Dir))
	}
	if err := errors.Join(errs...); err != nil {
		return err // the record stays: the next one tries again
	}
	return ignoreMissing(os.Remove(recordPath()))
}

// deleteNetns kills what runs in a network namespace of the lab and removes it. A missing one is fine.
func deleteNetns(ctx context.Context, name string) error {
	if _, err := os.Stat(filepath.Join("/run/netns", name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	pids, err := run(ctx, "ip", "netns", "pids", name)
	if err != nil {
		return err
	}
	for _, field := range strings.Fields(pids) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return fmt.Errorf("process in namespace %q: %w", name, err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d in namespace %q: %w", pid, name, err)
		}
	}
	_, err = run(ctx, "ip", "netns", "del", name)
	return err
}
