package proxy

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/probe"
	"github.com/proxyard/proxyard/pkg/steps"
)

// loginAge is how long a probe's credentials may be old before the Secret is read again.
const loginAge = 2 * time.Minute

// probe hands the wanted target to the prober and reads its latest verdict. The requests themselves are made elsewhere: no
// worker waits for one.
func (r *Reconciler) probe(ctx context.Context, s *scope) steps.Result {
	user, result := r.probeLogin(ctx, s)
	if result.Verdict != steps.VerdictDone {
		return result
	}
	state := r.prober.Set(s.key(), s.target(r.ProbeURL, user.name, user.password), s.lastVerdict())
	s.probe = &state
	if state.Health == probe.Healthy {
		return steps.DoneUntil(resync)
	}
	c := healthy(s)
	return steps.Wait(c.Reason, c.Message, resync)
}

// probeLogin is the login for the probe: the zero one without credentialsRef, the last known while the Secret is missing.
func (r *Reconciler) probeLogin(ctx context.Context, s *scope) (login, steps.Result) {
	mine := r.memory.of(s.proxy.UID)
	if mine.login != nil && r.Now().Sub(mine.loginAt) < loginAge {
		return *mine.login, steps.Done()
	}
	user, result := r.login(ctx, s)
	switch {
	case result.Verdict != steps.VerdictDone && mine.login == nil:
		return login{}, result
	case result.Verdict != steps.VerdictDone:
		return *mine.login, steps.Done()
	case user == nil:
		return login{}, steps.Done()
	}
	mine.login, mine.loginAt = user, r.Now()
	return *user, steps.Done()
}

// lastVerdict is the verdict that an earlier process left in the status: a restart of the manager must not make a serving
// fleet unready.
func (s *scope) lastVerdict() probe.State {
	c, old := s.condition(v1alpha1.ConditionHealthy), s.before.Status
	state := probe.State{Health: probe.HealthUnknown}
	if c == nil || len(old.Addresses) == 0 || len(s.addresses) == 0 || old.Addresses[0].IP != s.addresses[0].IP {
		return state
	}
	switch c.Status {
	case metav1.ConditionTrue:
		state = probe.State{Health: probe.Healthy, Class: probe.Success}
	case metav1.ConditionFalse:
		state = probe.State{Health: probe.Unhealthy, Class: probe.Class(c.Reason), Message: c.Message}
	default:
	}
	if old.Probe != nil && old.Probe.LastSuccessTime != nil {
		state.LastSuccess = old.Probe.LastSuccessTime.Time
		if old.Probe.Latency != nil {
			state.Latency = old.Probe.Latency.Duration
		}
	}
	return state
}
