package conn

import (
	"context"
	"sync"
	"time"
)

// side is an extra connection that is opened when it is needed and kept.
type side struct {
	host  *Host
	slots chan struct{}

	// opening serialises attempts; it is a channel so that waiting for it ends with a context.
	opening chan struct{}

	mu      sync.Mutex
	link    *link
	lastErr error
	retryAt time.Time
}

// sidePause keeps failed attempts apart: the daemon may be out of connections while the main one still works.
const sidePause = 5 * time.Second

// current returns the live link or opens one within ctx and Limits.Connect.
func (s *side) current(ctx context.Context) (*link, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l, err := s.known(); l != nil || err != nil {
		return l, err
	}
	l, err := s.host.openExtra(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.lastErr = l, nil
	if err != nil && ctx.Err() == nil { // a caller that gave up says nothing to the next
		s.lastErr, s.retryAt = err, time.Now().Add(sidePause)
	}
	return l, err
}

// known returns the live link, or the last error while it is too early to try again, or neither.
func (s *side) known() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil && s.link.guard.cause() == nil {
		return s.link, nil
	}
	if s.lastErr != nil && time.Now().Before(s.retryAt) {
		return nil, s.lastErr
	}
	return nil, nil
}

// drop closes the link; the next call opens another.
func (s *side) drop(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		s.link.guard.fail(cause)
		s.link = nil
	}
}

// openExtra opens a connection beside the main one. It ends with ctx, with the host, and at Limits.Connect.
func (h *Host) openExtra(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Limits.Connect)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(h.ctx, func() { stop(errClosed) })() //nolint:contextcheck // two contexts end this: the caller's and the host's
	l, err := openLink(ctx, h.dialer, h.endpoint.driver, nil)
	return l, named(h.cfg.Name, err)
}
