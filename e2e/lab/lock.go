package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// runDir holds the lock, the record and the hosts' /run. It is short because a unix socket's path has at most 107 bytes, and
// fixed because the bridge and its addresses exist once on a machine: so there is one lab, whoever starts it.
const (
	runDir      = "/run/proxyard-lab"
	hostsRunDir = runDir + "/hosts"
)

// record is what a lab writes before it makes it, so that a killed one can be cleaned up by the next.
type record struct {
	PID   int      `json:"pid"`
	Dir   string   `json:"dir"`
	Netns []string `json:"netns,omitempty"`
	Links []string `json:"links,omitempty"`
}

// lock is the right to be the lab of this machine. The kernel gives it up with the process, however that ends.
type lock struct {
	file *os.File
	path string // of the record
}

// errHeld is what acquire's error wraps when another lab runs.
var errHeld = errors.New("another lab runs on this machine")

// acquire takes the lock. When another lab has it, it waits (if asked to) or says who that is.
func acquire(ctx context.Context, dir string, wait bool, log func(string, ...any)) (*lock, error) {
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return nil, fmt.Errorf("folder for the lab's lock: %w", err)
	}
	file, err := os.OpenFile(lockPath(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lab's lock: %w", err)
	}
	told := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return newLock(file, dir)
		}
		held := fmt.Errorf("%w, held by %s", errHeld, holder())
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the lab: %w", err), file.Close())
		}
		if !wait {
			return nil, errors.Join(fmt.Errorf("%w: end it, or run `make demo-down`", held), file.Close())
		}
		if !told {
			log("waiting: %v (work folder here: %s)", held, dir)
			told = true
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("%w: %w", held, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

func newLock(file *os.File, dir string) (*lock, error) {
	data, err := json.Marshal(Holder{PID: os.Getpid(), Dir: dir})
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(data, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("say who holds the lab: %w", err), file.Close())
	}
	return &lock{file: file, path: recordPath()}, nil
}

// release removes the record and gives the lock up. The lock's file stays: removing it would let two labs hold two files.
func (l *lock) release() error {
	return errors.Join(ignoreMissing(os.Remove(l.path)), l.file.Close())
}

// note adds to the record; to be called before the thing is made.
func (l *lock) note(change func(*record)) error {
	r, err := readRecord()
	if err != nil {
		return err
	}
	change(&r)
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record of the lab: %w", err)
	}
	part := l.path + ".part"
	if err := os.WriteFile(part, data, 0o644); err != nil {
		return fmt.Errorf("record of the lab: %w", err)
	}
	return os.Rename(part, l.path)
}

func lockPath() string { return filepath.Join(runDir, "lock") }

func recordPath() string { return filepath.Join(runDir, "record.json") }

// readRecord gives the empty record when there is none.
func readRecord() (record, error) {
	var r record
	data, err := os.ReadFile(recordPath())
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("record of the lab: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("record of the lab %s: %w", recordPath(), err)
	}
	return r, nil
}

func holder() string {
	held, err := Running()
	if err != nil || held == nil {
		return "another process"
	}
	return fmt.Sprintf("process %d (work folder %s)", held.PID, held.Dir)
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
