package lab

import (
	"context"
	"syscall"
	"time"
)

// Program is a program that runs beside the lab, such as the manager under test, and ends with it.
type Program struct{ p *process }

// Program starts a program. It writes to log/<name>.log of the work folder.
func (l *Lab) Program(name string, argv ...string) (*Program, error) {
	p, err := l.startProcess(name, argv...)
	if err != nil {
		return nil, err
	}
	// A manager closes its connections and finishes what is under way.
	l.onClose(func() error { return p.stop(3 * killGrace) })
	return &Program{p}, nil
}

// PID of the program.
func (g *Program) PID() int { return g.p.cmd.Process.Pid }

// Log is the path of what it printed.
func (g *Program) Log() string { return g.p.log }

// Stop ends the program politely, and by force after half a minute.
func (g *Program) Stop() error { return g.p.stop(3 * killGrace) }

// Signal sends a signal.
func (g *Program) Signal(s syscall.Signal) error { return g.p.cmd.Process.Signal(s) }

// Await returns once ready says so; it fails when the program ends first, with the end of its log.
func (g *Program) Await(ctx context.Context, timeout time.Duration, ready func() bool) error {
	return g.p.await(ctx, timeout, ready)
}
