package probe

import "time"

// Health is a verdict.
type Health string

// The verdicts.
const (
	HealthUnknown Health = "Unknown"
	Healthy       Health = "Healthy"
	Unhealthy     Health = "Unhealthy"
)

// State is a verdict and what led to it. The zero State has no verdict yet.
type State struct {
	Health Health
	// Class and Message are those of the probe that the state rests on: the latest, except that a failure within the
	// threshold does not show on a healthy proxy.
	Class   Class
	Message string
	// Successes and Failures are the current streaks; at most one is not 0.
	Successes, Failures int
	// Latency and LastSuccess are those of the last success.
	Latency     time.Duration
	LastSuccess time.Time
}

// AboutToFail tells whether one more failure of this class would turn the verdict, and nobody but the target may be to
// blame: then a control probe is due.
func (s State) AboutToFail(t Target, class Class) bool {
	failed := class != Success && !class.Neutral()
	return failed && !class.ByProxy() && s.Health != Unhealthy && s.Failures+1 >= t.FailureThreshold
}

// Next is the state after one more observation. A neutral one ends the failure streak and leaves the verdict as it is,
// except for TargetUnavailable, which leaves the streak as well: nothing was learned.
func (s State) Next(t Target, o Observation) State {
	if s.Health == "" {
		s.Health = HealthUnknown
	}
	switch {
	case o.Class == Success:
		return s.succeed(t, o)
	case o.Class.Neutral():
		s.Class, s.Message = o.Class, o.Message
		if o.Class != TargetUnavailable {
			s.Failures = 0
		}
		return s
	default:
		return s.fail(t, o)
	}
}

func (s State) succeed(t Target, o Observation) State {
	s.Failures, s.Successes = 0, s.Successes+1
	s.Latency, s.LastSuccess = o.Latency, o.At
	if s.Successes >= t.SuccessThreshold {
		s.Health = Healthy
	}
	if s.Health != Unhealthy {
		s.Class, s.Message = o.Class, o.Message
	}
	return s
}

func (s State) fail(t Target, o Observation) State {
	s.Successes, s.Failures = 0, s.Failures+1
	if s.Failures >= t.FailureThreshold {
		s.Health = Unhealthy
	}
	if s.Health != Healthy {
		s.Class, s.Message = o.Class, o.Message
	}
	return s
}

// Differs tells whether a reader of the verdict would see another text.
func (s State) Differs(o State) bool {
	return s.Health != o.Health || s.Class != o.Class || s.Message != o.Message
}
