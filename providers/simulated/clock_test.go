package simulated_test

import (
	"slices"
	"sync"
	"time"
)

// fakeClock moves when it is told to.
type fakeClock struct {
	mu      sync.Mutex
	now     time.Time
	waiting []waiter
}

type waiter struct {
	at time.Time
	ch chan time.Time
}

func newClock() *fakeClock { return &fakeClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := waiter{at: c.now.Add(d), ch: make(chan time.Time, 1)}
	c.waiting = append(c.waiting, w)
	return w.ch
}

// Step moves the time and fires what is due.
func (c *fakeClock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waiting = slices.DeleteFunc(c.waiting, func(w waiter) bool {
		due := !w.at.After(c.now)
		if due {
			w.ch <- c.now
		}
		return due
	})
}

// HasWaiters tells whether somebody waits.
func (c *fakeClock) HasWaiters() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0
}
