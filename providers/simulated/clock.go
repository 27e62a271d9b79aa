package simulated

import "time"

// Clock is what a World needs of one. The clocks of k8s.io/utils/clock are such, the fake one too.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type realTime struct{}

func (realTime) Now() time.Time                         { return time.Now() }
func (realTime) After(d time.Duration) <-chan time.Time { return time.After(d) }
