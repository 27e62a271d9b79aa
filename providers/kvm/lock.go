package kvm

import (
	"context"
	"sync"

	"github.com/proxyard/proxyard/providers"
)

// keyedLock is one lock a key. Waiting for it ends with the context: a caller must not outlive its deadline because another
// one holds the lock. The zero value is ready.
type keyedLock[K comparable] struct {
	mu   sync.Mutex
	held map[K]chan struct{}
}

// lock takes the key's lock.
//
// Errors: Unreachable, when ctx ends first: nothing was asked, so nothing can be told.
func (l *keyedLock[K]) lock(ctx context.Context, key K) (unlock func(), err error) {
	for {
		l.mu.Lock()
		free, taken := l.held[key]
		if !taken {
			if l.held == nil {
				l.held = map[K]chan struct{}{}
			}
			mine := make(chan struct{})
			l.held[key] = mine
			l.mu.Unlock()
			return func() { l.release(key, mine) }, nil
		}
		l.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return nil, &providers.Error{Kind: providers.Unreachable, Reason: "Cancelled", Msg: "another operation on it is under way", Err: context.Cause(ctx)}
		}
	}
}

func (l *keyedLock[K]) release(key K, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
	close(mine)
}
