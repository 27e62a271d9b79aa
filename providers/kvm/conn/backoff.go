package conn

import (
	"math"
	"time"
)

// backoff is the pause after the nth failure in a row: doubling from BackoffMin up to BackoffMax, and of that a random part
// between a half and the whole (random is in [0,1)), so that many hosts behind one link do not come back in step.
func backoff(n int, l Limits, random float64) time.Duration {
	full := math.Min(float64(l.BackoffMin)*math.Pow(2, float64(n-1)), float64(l.BackoffMax))
	return time.Duration(full/2 + full/2*random)
}
