package kvm

import "sync"

// handle remembers what a name was resolved to, so that a poll does not ask for it each time. It is forgotten at the first
// error: the object may have been defined anew, with another UUID. The zero value is ready.
type handle[T any] struct {
	mu    sync.Mutex
	value *T
}

func (c *handle[T]) get(lookup func() (T, error)) (T, error) {
	c.mu.Lock()
	known := c.value
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	found, err := lookup()
	if err == nil {
		c.mu.Lock()
		c.value = &found
		c.mu.Unlock()
	}
	return found, err
}

// keep passes on the outcome of a call that used the handle.
func (c *handle[T]) keep(err error) error {
	if err != nil {
		c.mu.Lock()
		c.value = nil
		c.mu.Unlock()
	}
	return err
}
