package kvm

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func TestKeyedLock(t *testing.T) {
	var l keyedLock[string]
	unlock, err := l.lock(t.Context(), "a")
	require.NoError(t, err)

	other, err := l.lock(t.Context(), "b")
	require.NoError(t, err, "keys do not wait for each other")
	other()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.lock(ended, "a")
	require.ErrorIs(t, err, providers.Unreachable, "waiting ends with the caller's context")

	_, free := l.tryLock("a")
	assert.False(t, free)
	third, free := l.tryLock("c")
	assert.True(t, free)
	third()

	unlock()
	again, err := l.lock(t.Context(), "a")
	require.NoError(t, err)
	again()
	assert.Empty(t, l.held, "released keys cost nothing")
}

func TestKeyedLockExcludes(t *testing.T) {
	var (
		l       keyedLock[int]
		wg      sync.WaitGroup
		counter int
	)
	for range 50 {
		wg.Go(func() {
			unlock, err := l.lock(t.Context(), 1)
			if assert.NoError(t, err) {
				counter++ // the race detector and the sum both tell
				unlock()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 50, counter)
}
