package providers

import (
	"errors"
	"strings"
)

// Kind classifies an error by what the caller can do about it. The set is closed. A Kind is itself an error, so that
// errors.Is(err, providers.NotFound) works through any number of wraps.
type Kind int

// The kinds of error.
const (
	// Internal is everything that has no better kind; it is retried.
	Internal Kind = iota
	// NotFound: somebody who knows says that it is not there.
	NotFound
	// Exists: something that is not ours is in the way; it stays untouched.
	Exists
	// Invalid: the request can never work as it is. Retrying is useless until the request changes.
	Invalid
	// Denied: credentials or permissions do not suffice.
	Denied
	// Exhausted: no room (capacity, quota, disk) at that place.
	Exhausted
	// InProgress: the provider works on it; nothing is wrong.
	InProgress
	// Busy: it cannot be done just now.
	Busy
	// Unreachable: the host did not answer, so nothing can be told.
	Unreachable
)

// ErrPermanent is Invalid under the name that says what it means to a caller.
const ErrPermanent = Invalid

var kindNames = [...]string{
	Internal: "internal error", NotFound: "not found", Exists: "exists and is foreign", Invalid: "invalid", Denied: "denied",
	Exhausted: "exhausted", InProgress: "in progress", Busy: "busy", Unreachable: "unreachable",
}

// Error is the kind in words.
func (k Kind) Error() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown kind"
	}
	return kindNames[k]
}

// Error is the one error type of the contract.
type Error struct {
	Kind Kind
	// Reason is one CamelCase word that becomes the condition's reason, for example "HostKeyUnknown"; empty means: the
	// kind's own.
	Reason string
	// Host is the host it happened on, where there is one.
	Host string
	// Msg says what, where and for which input, for people. It is stable text without time stamps, and holds no secret.
	Msg string
	// Err is the cause, if any.
	Err error
}

// Error renders "host: msg: cause".
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	if e.Host != "" {
		parts = append(parts, "host "+e.Host)
	}
	if e.Msg != "" {
		parts = append(parts, e.Msg)
	} else if e.Err == nil {
		parts = append(parts, e.Kind.Error())
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// KindOf returns the kind of the outermost *Error or Kind in err's chain, Internal when there is none. It must not be asked
// about nil.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var k Kind
	if errors.As(err, &k) {
		return k
	}
	return Internal
}

// Known reports whether an error carries a kind: whether a provider said it.
func Known(err error) bool {
	var e *Error
	var k Kind
	return errors.As(err, &e) || errors.As(err, &k)
}

// Retry says when a caller tries again.
type Retry int

// The ways to try again.
const (
	// RetryBackoff: later and later.
	RetryBackoff Retry = iota
	// RetryPoll: steadily, since nothing is wrong.
	RetryPoll
	// RetryNever: not before the request changes.
	RetryNever
)

// Outcome is what an error means to the one who shows it and decides about the next try.
type Outcome struct {
	// Reason is a CamelCase word for a condition.
	Reason string
	// Warn tells whether people should get a warning event.
	Warn  bool
	Retry Retry
}

var outcomes = [...]Outcome{
	Internal:    {Reason: "ProviderError", Warn: true, Retry: RetryBackoff},
	NotFound:    {Reason: "NotFound", Warn: true, Retry: RetryBackoff},
	Exists:      {Reason: "ForeignObject", Warn: true, Retry: RetryNever},
	Invalid:     {Reason: "InvalidSpec", Warn: true, Retry: RetryNever},
	Denied:      {Reason: "Denied", Warn: true, Retry: RetryBackoff},
	Exhausted:   {Reason: "Exhausted", Warn: true, Retry: RetryBackoff},
	InProgress:  {Reason: "InProgress", Warn: false, Retry: RetryPoll},
	Busy:        {Reason: "Busy", Warn: false, Retry: RetryBackoff},
	Unreachable: {Reason: "HostUnreachable", Warn: true, Retry: RetryBackoff},
}

// OutcomeOf is the one table that maps an error to condition reason, event and retry.
func OutcomeOf(err error) Outcome {
	o := outcomes[KindOf(err)]
	var e *Error
	if errors.As(err, &e) && e.Reason != "" {
		o.Reason = e.Reason
	}
	return o
}
