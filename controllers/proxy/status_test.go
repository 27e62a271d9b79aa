package proxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/probe"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

func unreachable() error {
	return &providers.Error{Kind: providers.Unreachable, Host: "kvm1", Msg: "no answer"}
}

func TestDerive(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC))
	at := func(step string, r steps.Result) func(*scope) {
		return func(s *scope) { s.outcome = steps.Outcome{Step: step, Result: r} }
	}
	running := func(s *scope) {
		s.machine = &providers.Status{State: providers.StateRunning}
		s.addresses = []v1alpha1.ProxyAddress{{IP: "fd00::5", Source: "lease"}}
	}
	state := func(h probe.Health, c probe.Class) func(*scope) {
		return func(s *scope) { s.probe = &probe.State{Health: h, Class: c, LastSuccess: now.Time} }
	}
	for name, c := range map[string]struct {
		facts    []func(*scope)
		phase    v1alpha1.ProxyPhase
		ready    metav1.ConditionStatus
		reason   string
		endpoint string
	}{
		"serves":              {[]func(*scope){running, state(probe.Healthy, probe.Success)}, v1alpha1.PhaseReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "[fd00::5]:3128"},
		"no verdict yet":      {[]func(*scope){running, state(probe.HealthUnknown, ""), at(stepProbe, steps.Wait(v1alpha1.ReasonProbing, "", 1))}, v1alpha1.PhaseProvisioning, metav1.ConditionFalse, v1alpha1.ReasonProbing, ""},
		"unhealthy":           {[]func(*scope){running, state(probe.Unhealthy, probe.Timeout), at(stepProbe, steps.Wait("Timeout", "", 1))}, v1alpha1.PhaseUnhealthy, metav1.ConditionFalse, v1alpha1.ReasonTimeout, ""},
		"password rejected":   {[]func(*scope){running, state(probe.Unhealthy, probe.AuthRejected), at(stepProbe, steps.Wait("AuthRejected", "", 1))}, v1alpha1.PhaseUnhealthy, metav1.ConditionFalse, v1alpha1.ReasonAuthRejected, ""},
		"target refuses":      {[]func(*scope){running, state(probe.Healthy, probe.TargetRefused)}, v1alpha1.PhaseReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "[fd00::5]:3128"},
		"host silent, serves": {[]func(*scope){running, state(probe.Healthy, probe.Success), func(s *scope) { r := steps.Retry("HostUnreachable", unreachable(), 1); s.unsure = &r }}, v1alpha1.PhaseReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "[fd00::5]:3128"},
		"host silent, new":    {[]func(*scope){at(stepMachine, steps.Retry("HostUnreachable", unreachable(), 1))}, v1alpha1.PhaseUnknown, metav1.ConditionUnknown, v1alpha1.ReasonHostUnreachable, ""},
		"host gives no state": {[]func(*scope){at(stepMachine, steps.Wait(v1alpha1.ReasonMachineUnknown, "", 1))}, v1alpha1.PhaseUnknown, metav1.ConditionUnknown, v1alpha1.ReasonMachineUnknown, ""},
		"no address":          {[]func(*scope){at(stepAddress, steps.Wait(v1alpha1.ReasonNoAddress, "", 1))}, v1alpha1.PhaseProvisioning, metav1.ConditionFalse, v1alpha1.ReasonNoAddress, ""},
		"not placed":          {[]func(*scope){at(stepSchedule, steps.Wait(v1alpha1.ReasonNoFit, "", 1))}, v1alpha1.PhasePending, metav1.ConditionFalse, v1alpha1.ReasonNoFit, ""},
		"permanent error":     {[]func(*scope){at(stepMachine, steps.Stalled("ForeignObject", "", 1))}, v1alpha1.PhaseFailed, metav1.ConditionFalse, "ForeignObject", ""},
		"crashed": {[]func(*scope){
			func(s *scope) { s.machine = &providers.Status{State: providers.StateFailed} }, at(stepMachine, steps.Wait(v1alpha1.ReasonMachineFailed, "", 1)),
		}, v1alpha1.PhaseFailed, metav1.ConditionFalse, v1alpha1.ReasonMachineFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(shop(func(p *v1alpha1.Proxy) { p.Status.Hypervisor, p.Status.ProviderID = "kvm1", "kvm://kvm1/x" }))
			for _, fact := range c.facts {
				fact(s)
			}
			got := derive(s, now)
			assert.Equal(t, c.phase, got.Phase)
			assert.Equal(t, c.endpoint, got.Endpoint)
			p := &v1alpha1.Proxy{Status: got}
			ready := conditionOf(t, p, v1alpha1.ConditionReady)
			assert.Equal(t, c.ready, ready.Status)
			assert.Equal(t, c.reason, ready.Reason)
			s.before.Status, s.proxy.Status = got, got
			assert.Equal(t, got, derive(s, metav1.NewTime(now.Add(time.Minute))), "the same facts give the same status")
		})
	}
}

func TestEveryReasonIsAValidOne(t *testing.T) {
	for _, class := range []probe.Class{
		probe.ProxyUnreachable, probe.AuthRejected, probe.ACLDenied, probe.UpstreamUnreachable, probe.Timeout, probe.WrongContent,
		probe.TargetRefused, probe.TargetInvalid, probe.TargetUnavailable,
	} {
		assert.Contains(t, []string{
			v1alpha1.ReasonProxyUnreachable, v1alpha1.ReasonAuthRejected, v1alpha1.ReasonACLDenied, v1alpha1.ReasonUpstreamUnreachable,
			v1alpha1.ReasonTimeout, v1alpha1.ReasonWrongContent, v1alpha1.ReasonTargetRefused, v1alpha1.ReasonTargetInvalid,
			v1alpha1.ReasonProbeTargetUnavailable,
		}, string(class), "a class of a probe is a documented reason")
	}
}

func TestProbeSendsTheCredentials(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "login"},
		Data:       map[string][]byte{"username": []byte("office"), "password": []byte("s3cret")},
	}
	w := newWorld(t, shop(func(p *v1alpha1.Proxy) {
		p.Spec.UserData = nil
		p.Spec.Access = &v1alpha1.ProxyAccess{AllowedClients: []string{"10.0.0.0/8"}, CredentialsRef: &corev1.LocalObjectReference{Name: "login"}}
	}), hypervisor("kvm1"), secret)
	w.ready()
	s := newScope(w.get())
	user, result := w.r.probeLogin(t.Context(), s)
	require.Equal(t, steps.VerdictDone, result.Verdict)
	assert.Equal(t, login{name: "office", password: "s3cret"}, user)

	secret.Data["password"] = []byte("rotated")
	require.NoError(t, w.client.Update(t.Context(), secret))
	w.now = w.now.Add(loginAge)
	user, _ = w.r.probeLogin(t.Context(), s)
	assert.Equal(t, "rotated", user.password)
	require.NoError(t, w.client.Delete(t.Context(), secret))
	w.now = w.now.Add(loginAge)
	user, result = w.r.probeLogin(t.Context(), s)
	assert.Equal(t, steps.VerdictDone, result.Verdict, "a lost Secret does not stop the probes of a running proxy")
	assert.Equal(t, "rotated", user.password)

	docs, result := w.r.userData(t.Context(), newScope(shop(func(p *v1alpha1.Proxy) { p.Spec = w.get().Spec })))
	assert.Nil(t, docs)
	assert.Equal(t, v1alpha1.ReasonSecretNotFound, result.Reason)
}

func TestRenderedSquidServesTheProbe(t *testing.T) {
	w := newWorld(t)
	for url, want := range map[string][]string{
		"http://10.77.0.1:8099/generate_204": {"10.77.0.1:8099"},
		"https://probe.example/x":            {"probe.example:443"},
		"http://[fd00::1]/x":                 {"[fd00::1]:80"},
		"http://127.0.0.1:8080/x":            nil,
		"":                                   {"probe.example:80"},
	} {
		assert.Equal(t, want, w.r.probeTargets(&v1alpha1.ProxySpec{Health: v1alpha1.ProxyHealth{URL: url}}), url)
	}
}
