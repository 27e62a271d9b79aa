package probe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestNext(t *testing.T) {
	target := Target{FailureThreshold: 3, SuccessThreshold: 2}
	for name, c := range map[string]struct {
		seen   []Class
		health Health
		class  Class
		reason string
	}{
		"nothing seen":                   {nil, "", "", "there is no verdict before the first probe"},
		"one success":                    {[]Class{Success}, HealthUnknown, Success, "two are wanted"},
		"two successes":                  {[]Class{Success, Success}, Healthy, Success, ""},
		"successes with a failure":       {[]Class{Success, Timeout, Success}, HealthUnknown, Success, "a run is a run"},
		"one failure of a healthy proxy": {[]Class{Success, Success, Timeout}, Healthy, Success, "one failed tick condemns nobody, nor shows"},
		"three failures":                 {[]Class{Success, Success, Timeout, Timeout, ProxyUnreachable}, Unhealthy, ProxyUnreachable, "the last class is the reason"},
		"refusals by the target reset":   {[]Class{Success, Success, Timeout, Timeout, TargetRefused, Timeout}, Healthy, TargetRefused, "a neutral answer ends the failure streak"},
		"target down holds the streak":   {[]Class{Success, Success, Timeout, Timeout, TargetUnavailable, Timeout}, Unhealthy, Timeout, "nothing was learned in between"},
		"only neutral answers":           {[]Class{TargetRefused, TargetRefused, TargetRefused}, HealthUnknown, TargetRefused, "they prove nothing"},
		"one success of an unhealthy":    {[]Class{Timeout, Timeout, Timeout, Success}, Unhealthy, Timeout, "why it is unhealthy stays until it is not"},
		"recovery":                       {[]Class{Timeout, Timeout, Timeout, Success, Success}, Healthy, Success, ""},
		"407 counts as failure":          {[]Class{Success, Success, AuthRejected, AuthRejected, AuthRejected}, Unhealthy, AuthRejected, "never alive"},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for _, class := range c.seen {
				s = s.Next(target, Observation{Class: class})
			}
			assert.Equal(t, c.health, s.Health, c.reason)
			assert.Equal(t, c.class, s.Class, c.reason)
			assert.False(t, s.Failures > 0 && s.Successes > 0)
		})
	}
}

func TestAboutToFail(t *testing.T) {
	target := Target{FailureThreshold: 2}
	for name, c := range map[string]struct {
		state State
		class Class
		want  bool
	}{
		"first of two failures":       {State{Health: Healthy}, Timeout, false},
		"second of two failures":      {State{Health: Healthy, Failures: 1}, Timeout, true},
		"no verdict yet":              {State{Health: HealthUnknown, Failures: 1}, UpstreamUnreachable, true},
		"unhealthy already":           {State{Health: Unhealthy, Failures: 9}, Timeout, false},
		"the proxy itself refuses":    {State{Health: Healthy, Failures: 1}, AuthRejected, false},
		"a neutral answer":            {State{Health: Healthy, Failures: 1}, TargetRefused, false},
		"a success":                   {State{Health: Healthy, Failures: 1}, Success, false},
		"unreachable, maybe our side": {State{Health: Healthy, Failures: 1}, ProxyUnreachable, true},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.state.AboutToFail(target, c.class)) })
	}
}

func TestNextKeepsTheLastSuccess(t *testing.T) {
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s := State{}.Next(Target{FailureThreshold: 1, SuccessThreshold: 1}, Observation{Class: Success, Latency: time.Second, At: at})
	s = s.Next(Target{FailureThreshold: 1, SuccessThreshold: 1}, Observation{Class: Timeout})
	assert.Equal(t, at, s.LastSuccess)
	assert.Equal(t, time.Second, s.Latency)
}
