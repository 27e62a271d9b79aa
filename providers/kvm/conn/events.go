package conn

import (
	"context"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// EventKind says what an Event is about.
type EventKind int

// The kinds of event.
const (
	// Connected: there is a new connection; whatever happened before is unknown.
	Connected EventKind = iota
	// Disconnected: an attempt failed or the connection was lost; State says why.
	Disconnected
	// Lifecycle: something happened to the domain UUID, or to unnamed ones when UUID is zero.
	Lifecycle
)

// Event is a hint to look. Events may be merged, doubled or lost.
type Event struct {
	Kind EventKind
	UUID [16]byte
}

// eventQueue merges lifecycle events between the reader of a connection, which must never wait, and the consumer. What it
// holds is bounded whatever a host sends.
type eventQueue struct {
	wake chan struct{}

	mu   sync.Mutex
	due  map[libvirt.UUID]struct{}
	many bool // more than maxBurst
}

func newEventQueue() *eventQueue {
	return &eventQueue{wake: make(chan struct{}, 1), due: map[libvirt.UUID]struct{}{}}
}

func (q *eventQueue) push(id libvirt.UUID) {
	q.mu.Lock()
	if _, known := q.due[id]; !known && len(q.due) >= maxBurst {
		q.many = true
	} else {
		q.due[id] = struct{}{}
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *eventQueue) take() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := make([]Event, 0, len(q.due)+1)
	if q.many {
		events = append(events, Event{Kind: Lifecycle})
	} else {
		for id := range q.due {
			events = append(events, Event{Kind: Lifecycle, UUID: id})
		}
	}
	clear(q.due)
	q.many = false
	return events
}

// deliver hands bursts to fn, the first at once and then at most one every eventPause.
func (q *eventQueue) deliver(ctx context.Context, fn func(Event)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		for _, e := range q.take() {
			fn(e)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventPause):
		}
	}
}
