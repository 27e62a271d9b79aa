package kvm

import (
	"maps"
	"slices"
	"sync"

	"github.com/proxyard/proxyard/providers"
)

// broadcaster hands events to whoever subscribed. The zero value is ready.
type broadcaster struct {
	mu   sync.Mutex
	next int
	subs map[int]func(providers.Event)
}

func (b *broadcaster) subscribe(fn func(providers.Event)) (cancel func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = map[int]func(providers.Event){}
	}
	id := b.next
	b.next++
	b.subs[id] = fn
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subs, id)
	}
}

// publish calls the subscribers outside the lock: one that cancels in its callback must not deadlock.
func (b *broadcaster) publish(e providers.Event) {
	b.mu.Lock()
	subs := slices.Collect(maps.Values(b.subs))
	b.mu.Unlock()
	for _, fn := range subs {
		fn(e)
	}
}
