package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/proxyard/proxyard/e2e/lab"
)

// upMark starts the line by which a command in the background says that it is up.
const upMark = "up"

// show prints what the log has beyond the first *shown bytes, and tells whether the lab is up.
func show(name string, shown *int) bool {
	data, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	_, _ = os.Stdout.Write(data[*shown:])
	*shown = len(data)
	return bytes.Contains(data, []byte("] "+upMark+": "))
}

func status() error {
	running, err := lab.Running()
	if err != nil {
		return err
	}
	if running == nil {
		fmt.Println("no lab is running")
		return nil
	}
	fmt.Printf("process %d, work folder %s\n", running.PID, running.Dir)
	data, err := os.ReadFile(filepath.Join(running.Dir, "lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Println("starting, or held by a test")
		return nil
	}
	if err != nil {
		return fmt.Errorf("what the lab says of itself: %w", err)
	}
	fmt.Println(string(data))
	return nil
}

func down(ctx context.Context, log func(string, ...any)) error {
	stopped, err := lab.Stop(ctx)
	if err != nil {
		return err
	}
	if err := lab.Clean(ctx, log); err != nil {
		return err
	}
	if stopped {
		log("down")
	} else {
		log("no lab was running")
	}
	return nil
}
