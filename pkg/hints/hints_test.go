package hints

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEqualHintsAreOne(t *testing.T) {
	b := NewBox[string]()
	for range 1000 {
		b.Add("kvm1") // nobody takes: it must not block
	}
	b.Add("kvm2")
	assert.Equal(t, map[string]struct{}{"kvm1": {}, "kvm2": {}}, b.take(t.Context()))
	b.Add("kvm1")
	assert.Len(t, b.take(t.Context()), 1, "a hint after the take is a new one")
}

func TestTakeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Nil(t, NewBox[int]().take(ctx))
}
