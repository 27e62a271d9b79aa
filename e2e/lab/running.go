package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Holder is the process that holds the lab of this machine.
type Holder struct {
	PID int    `json:"pid"`
	Dir string `json:"dir"`
}

// Running tells who holds the lab; nil when nobody does.
func Running() (*Holder, error) {
	data, err := os.ReadFile(lockPath())
	if errors.Is(err, os.ErrNotExist) || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("who holds the lab: %w", err)
	}
	var held Holder
	if err := json.Unmarshal(data, &held); err != nil {
		return nil, fmt.Errorf("who holds the lab: %s: %w", lockPath(), err)
	}
	if !hasOpen(held.PID, lockPath()) {
		return nil, nil
	}
	return &held, nil
}

// hasOpen tells whether a process has a file open. The number of a dead holder may by now be that of a stranger, which nobody
// may signal: the stranger has not opened our lock.
func hasOpen(pid int, name string) bool {
	links, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*"))
	if err != nil {
		return false
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == name {
			return true
		}
	}
	return false
}

// Stop asks the holder of the lab to close it and waits until it has. It tells whether there was one.
func Stop(ctx context.Context) (bool, error) {
	held, err := Running()
	if err != nil || held == nil {
		return false, err
	}
	if err := syscall.Kill(held.PID, syscall.SIGTERM); err != nil {
		return false, fmt.Errorf("stop the lab's process %d: %w", held.PID, err)
	}
	for {
		now, err := Running()
		if err != nil || now == nil || now.PID != held.PID {
			return true, err
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("wait for the lab's process %d to end: %w", held.PID, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
