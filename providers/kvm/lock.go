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
			unlock = l.take(key)
		}
		l.mu.Unlock()
		if !taken {
			return unlock, nil
		}
		select {
		case <-free:
		case <-ctx.Done():
			return nil, &providers.Error{Kind: providers.Unreachable, Reason: "Cancelled", Msg: "another operation on it is under way", Err: context.Cause(ctx)}
		}
	}
}

// tryLock takes the key's lock if nobody has it.
func (l *keyedLock[K]) tryLock(key K) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, taken := l.held[key]; taken {
		return nil, false
	}
	return l.take(key), true
}

// take is called with mu held, for a key that is free.
func (l *keyedLock[K]) take(key K) (unlock func()) {
	if l.held == nil {
		l.held = map[K]chan struct{}{}
	}
	mine := make(chan struct{})
	l.held[key] = mine
	return func() { l.release(key, mine) }
}

func (l *keyedLock[K]) release(key K, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
	close(mine)
}
