package providers_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/proxyard/proxyard/providers"
)

func allKinds() []providers.Kind {
	return []providers.Kind{
		providers.Internal, providers.NotFound, providers.Exists, providers.Invalid, providers.Denied, providers.Exhausted,
		providers.InProgress, providers.Busy, providers.Unreachable,
	}
}

// G3: the class of an error must not get lost on its way up.
func TestKindSurvivesWraps(t *testing.T) {
	wraps := map[string]struct {
		reason string
		wrap   func(error) error
	}{
		"bare":      {"as a provider returns it", func(err error) error { return err }},
		"once":      {"%w", func(err error) error { return fmt.Errorf("create %q: %w", "px", err) }},
		"thrice":    {"%w of %w of %w", func(err error) error { return fmt.Errorf("a: %w", fmt.Errorf("b: %w", fmt.Errorf("c: %w", err))) }},
		"joined":    {"errors.Join with a plain error in front", func(err error) error { return errors.Join(errors.New("other"), err) }},
		"two of %w": {"multiple wraps", func(err error) error { return fmt.Errorf("%w and %w", errors.New("other"), err) }},
	}
	for name, tc := range wraps {
		t.Run(name, func(t *testing.T) {
			for _, k := range allKinds() {
				for form, err := range map[string]error{
					"Error": tc.wrap(&providers.Error{Kind: k, Host: "h", Msg: "m", Err: errors.New("cause")}),
					"Kind":  tc.wrap(k),
				} {
					assert.Equal(t, k, providers.KindOf(err), "%s %s: %s", form, k.Error(), tc.reason)
					for _, other := range allKinds() {
						assert.Equal(t, other == k, errors.Is(err, other), "%s: errors.Is(%s, %s)", form, k.Error(), other.Error())
					}
				}
			}
		})
	}
}

func TestKindOfTheOutermostErrorCounts(t *testing.T) {
	inner := &providers.Error{Kind: providers.Unreachable, Msg: "dial"}
	outer := fmt.Errorf("list: %w", &providers.Error{Kind: providers.Busy, Msg: "pool", Err: inner})
	assert.Equal(t, providers.Busy, providers.KindOf(outer), "who knows more decides")
	assert.ErrorIs(t, outer, providers.Unreachable, "the cause is still found")
	assert.Equal(t, providers.Internal, providers.KindOf(errors.New("plain")), "an unknown error is Internal")
	assert.NotErrorIs(t, errors.New("plain"), providers.Internal, "but is none of ours")
}

func TestPermanentMeansInvalid(t *testing.T) {
	err := fmt.Errorf("create: %w", &providers.Error{Kind: providers.Invalid})
	assert.ErrorIs(t, err, providers.ErrPermanent)
	assert.NotErrorIs(t, &providers.Error{Kind: providers.Exists}, providers.ErrPermanent, "another name's machine may go away")
}

func TestErrorText(t *testing.T) {
	cause := errors.New("no route to host")
	tests := map[string]struct {
		reason string
		err    *providers.Error
		want   string
	}{
		"all parts":    {"a path from host to cause", &providers.Error{Kind: providers.Unreachable, Host: "kvm1", Msg: "dial", Err: cause}, "host kvm1: dial: no route to host"},
		"without host": {"no empty part", &providers.Error{Kind: providers.Invalid, Msg: "no disk"}, "no disk"},
		"only a cause": {"the kind would only repeat it", &providers.Error{Kind: providers.Unreachable, Err: cause}, "no route to host"},
		"only a kind":  {"never an empty text", &providers.Error{Kind: providers.Busy}, "busy"},
		"host, kind":   {"never an empty text", &providers.Error{Kind: providers.Denied, Host: "kvm1"}, "host kvm1: denied"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, tc.err.Error(), tc.reason) })
	}
}

func TestKindText(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range allKinds() {
		assert.NotEmpty(t, k.Error())
		assert.False(t, seen[k.Error()], "%q names two kinds", k.Error())
		seen[k.Error()] = true
	}
	assert.Equal(t, "unknown kind", providers.Kind(-1).Error())
	assert.Equal(t, "unknown kind", providers.Kind(len(allKinds())).Error(), "allKinds is complete")
}

func TestOutcomes(t *testing.T) {
	tests := map[providers.Kind]providers.Outcome{
		providers.Internal:    {Reason: "ProviderError", Warn: true, Retry: providers.RetryBackoff},
		providers.NotFound:    {Reason: "NotFound", Warn: true, Retry: providers.RetryBackoff},
		providers.Exists:      {Reason: "ForeignObject", Warn: true, Retry: providers.RetryNever},
		providers.Invalid:     {Reason: "InvalidSpec", Warn: true, Retry: providers.RetryNever},
		providers.Denied:      {Reason: "Denied", Warn: true, Retry: providers.RetryBackoff},
		providers.Exhausted:   {Reason: "Exhausted", Warn: true, Retry: providers.RetryBackoff},
		providers.InProgress:  {Reason: "InProgress", Warn: false, Retry: providers.RetryPoll},
		providers.Busy:        {Reason: "Busy", Warn: false, Retry: providers.RetryBackoff},
		providers.Unreachable: {Reason: "HostUnreachable", Warn: true, Retry: providers.RetryBackoff},
	}
	for _, k := range allKinds() {
		want, ok := tests[k]
		assert.True(t, ok, "kind %q has an outcome", k.Error())
		assert.Equal(t, want, providers.OutcomeOf(fmt.Errorf("x: %w", &providers.Error{Kind: k})), k.Error())

		want.Reason = "HostKeyUnknown"
		got := providers.OutcomeOf(fmt.Errorf("x: %w", &providers.Error{Kind: k, Reason: "HostKeyUnknown"}))
		assert.Equal(t, want, got, "an error's own reason goes before its kind's, and changes nothing else")
	}
	assert.Equal(t, tests[providers.Internal], providers.OutcomeOf(errors.New("plain")))
}
