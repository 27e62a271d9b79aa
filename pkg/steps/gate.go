package steps

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Gate keeps an act from being repeated before its time, whatever wakes the reconcile: events of hosts, of probes and of
// other objects must not turn a backoff into a storm of creates. It lives in memory; after a restart everything may be
// tried once more.
type Gate struct {
	backoff workqueue.TypedRateLimiter[string]
	now     func() time.Time

	mu     sync.Mutex
	closed map[string]closedGate
}

type closedGate struct {
	generation int64
	until      time.Time
	result     Result
}

// NewGate returns a gate whose backoff grows from first to longest. A nil clock is the system's.
func NewGate(first, longest time.Duration, now func() time.Time) *Gate {
	if now == nil {
		now = time.Now
	}
	return &Gate{
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](first, longest),
		now:     now,
		closed:  map[string]closedGate{},
	}
}

// Closed returns the result that closed the gate for key, with what is left of its wait, and whether it is still closed. A
// new generation opens it at once.
func (g *Gate) Closed(key string, generation int64) (Result, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.closed[key]
	left := c.until.Sub(g.now())
	if !ok || c.generation != generation || left <= 0 {
		return Result{}, false
	}
	r := c.result
	r.After = left
	return r, true
}

// Close closes the gate with r and returns r with its wait: the next of the backoff when r has none.
func (g *Gate) Close(key string, generation int64, r Result) Result {
	if r.After == 0 {
		r.After = g.backoff.When(key)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed[key] = closedGate{generation: generation, until: g.now().Add(r.After), result: r}
	return r
}

// Open forgets key and its backoff: the act succeeded or the object is gone.
func (g *Gate) Open(key string) {
	g.backoff.Forget(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.closed, key)
}
