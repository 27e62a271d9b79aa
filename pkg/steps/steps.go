// Package steps gives a reconcile its shape: a named ordered slice of steps, each of which converges one thing or says why
// not, and one mapping of what a step says to what the work queue does.
//
// The controllers are its callers. A step answers [Done], [Wait], [Stalled], [Retry] or [Failed]; nothing else decides
// about the next try, and Requeue is never used.
package steps

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Verdict is what a step says about its own work.
type Verdict int

// The verdicts.
const (
	// VerdictDone: this step's thing is as it should be.
	VerdictDone Verdict = iota
	// VerdictWait: nothing is wrong, but it takes time or somebody else's act.
	VerdictWait
	// VerdictStalled: it can never work before the object changes.
	VerdictStalled
	// VerdictFailed: it did not work and is tried again.
	VerdictFailed
)

// Result is the answer of a step.
type Result struct {
	Verdict Verdict
	// Reason is a CamelCase word and Message a stable sentence, both for a condition; empty when done.
	Reason, Message string
	// After is when to look again; 0 with VerdictFailed means: by the work queue's backoff, 0 otherwise: when something
	// happens.
	After time.Duration
	// Err is set for VerdictFailed only.
	Err error
}

// Done says that the thing is as it should be.
func Done() Result { return Result{} }

// DoneUntil is Done for a thing that changes by itself: it is looked at again after that time.
func DoneUntil(after time.Duration) Result { return Result{After: after} }

// Wait says that nothing is wrong and when to look again.
func Wait(reason, message string, after time.Duration) Result {
	return Result{Verdict: VerdictWait, Reason: reason, Message: message, After: after}
}

// Stalled says that it cannot work before the object changes. A recheck greater than 0 is for causes that may also go away
// outside of the object.
func Stalled(reason, message string, recheck time.Duration) Result {
	return Result{Verdict: VerdictStalled, Reason: reason, Message: message, After: recheck}
}

// Retry says that it did not work for a known reason and when it is tried again.
func Retry(reason string, err error, after time.Duration) Result {
	return Result{Verdict: VerdictFailed, Reason: reason, Message: err.Error(), After: after, Err: err}
}

// Failed says that something unexpected happened, usually to a call of the API server. The work queue backs off.
func Failed(err error) Result {
	return Result{Verdict: VerdictFailed, Reason: "Error", Message: err.Error(), Err: err}
}

// Reconcile maps the result to what controller-runtime wants.
func (r Result) Reconcile() (reconcile.Result, error) {
	if r.Verdict == VerdictFailed && r.After == 0 {
		return reconcile.Result{}, r.Err
	}
	return reconcile.Result{RequeueAfter: r.After}, nil
}

// Step is one named part of a reconcile over the scope S.
type Step[S any] struct {
	Name string
	Run  func(context.Context, S) Result
}

// Outcome is how far a run of steps came.
type Outcome struct {
	// Step is the name of the step that did not say done, empty when all did.
	Step string
	// Result is that step's; when all are done, a Done with the earliest time at which one of them wants to be asked again.
	Result Result
}

// Run runs the steps in their order up to the first that is not done.
func Run[S any](ctx context.Context, scope S, all []Step[S]) Outcome {
	var after time.Duration
	for _, step := range all {
		r := step.Run(ctx, scope)
		after = Sooner(after, r.After)
		if r.Verdict == VerdictDone {
			continue
		}
		if r.Verdict != VerdictFailed || r.After > 0 {
			r.After = after
		}
		return Outcome{Step: step.Name, Result: r}
	}
	return Outcome{Result: DoneUntil(after)}
}

// Sooner returns the shorter of two waits, where 0 means none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
