// Package hints carries "look again" from where it is noticed (a provider's callback, the prober) to a controller's work
// queue, without ever blocking the one who noticed: equal hints that were not taken yet are one. The controllers are its
// callers.
package hints

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Box holds hints until they are taken. Its methods are safe for concurrent use.
type Box[T comparable] struct {
	mu      sync.Mutex
	waiting map[T]struct{}
	filled  chan struct{}
}

// NewBox returns an empty box.
func NewBox[T comparable]() *Box[T] {
	return &Box[T]{waiting: map[T]struct{}{}, filled: make(chan struct{}, 1)}
}

// Add puts a hint into the box. It never blocks.
func (b *Box[T]) Add(hint T) {
	b.mu.Lock()
	b.waiting[hint] = struct{}{}
	b.mu.Unlock()
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// take waits for hints and empties the box; nil when ctx ends.
func (b *Box[T]) take(ctx context.Context) map[T]struct{} {
	select {
	case <-ctx.Done():
		return nil
	case <-b.filled:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.waiting
	b.waiting = map[T]struct{}{}
	return taken
}

// Source makes the box a source of a controller: resolve says which objects a hint is about.
func Source[T comparable](b *Box[T], resolve func(context.Context, T) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			for ctx.Err() == nil {
				for hint := range b.take(ctx) {
					for _, request := range resolve(ctx, hint) {
						queue.Add(request)
					}
				}
			}
		}()
		return nil
	})
}
