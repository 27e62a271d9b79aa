package conn

import (
	"context"
	"errors"
)

// Hook sees every procedure that is called on a host. It exists for fault injection: tests end calls before they reach the
// host, or lose the answers of calls that did.
type Hook interface {
	// Before runs before a call is sent. An error is returned to the caller instead of calling.
	Before(ctx context.Context, host, procedure string) error
	// After runs with the call's outcome; the error it returns replaces that outcome when it is not nil.
	After(ctx context.Context, host, procedure string, outcome error) error
}

// ErrCut closes the connection, when a Hook returns it, as if it had been lost at that moment.
var ErrCut = errors.New("connection cut by the fault hook")

// noHook is production.
type noHook struct{}

func (noHook) Before(context.Context, string, string) error       { return nil }
func (noHook) After(context.Context, string, string, error) error { return nil }
