package steps

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var errBoom = errors.New("boom")

func TestReconcile(t *testing.T) {
	for name, c := range map[string]struct {
		result Result
		want   reconcile.Result
		err    error
	}{
		"done":             {Done(), reconcile.Result{}, nil},
		"done for a while": {DoneUntil(time.Minute), reconcile.Result{RequeueAfter: time.Minute}, nil},
		"wait":             {Wait("R", "m", time.Second), reconcile.Result{RequeueAfter: time.Second}, nil},
		"stalled":          {Stalled("R", "m", 0), reconcile.Result{}, nil},
		"stalled, recheck": {Stalled("R", "m", time.Hour), reconcile.Result{RequeueAfter: time.Hour}, nil},
		"retry":            {Retry("R", errBoom, time.Second), reconcile.Result{RequeueAfter: time.Second}, nil},
		"failed":           {Failed(errBoom), reconcile.Result{}, errBoom},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.result.Reconcile()
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.err, err)
		})
	}
}

func TestRunStopsAtTheFirstThatIsNotDone(t *testing.T) {
	var ran []string
	step := func(name string, r Result) Step[int] {
		return Step[int]{Name: name, Run: func(context.Context, int) Result { ran = append(ran, name); return r }}
	}
	for name, c := range map[string]struct {
		steps []Step[int]
		step  string
		after time.Duration
		ran   []string
	}{
		"all done":             {[]Step[int]{step("a", Done()), step("b", Done())}, "", 0, []string{"a", "b"}},
		"the earliest wins":    {[]Step[int]{step("a", DoneUntil(time.Second)), step("b", DoneUntil(time.Minute))}, "", time.Second, []string{"a", "b"}},
		"a wait ends it":       {[]Step[int]{step("a", Wait("R", "", time.Minute)), step("b", Done())}, "a", time.Minute, []string{"a"}},
		"earlier steps' times": {[]Step[int]{step("a", DoneUntil(time.Second)), step("b", Wait("R", "", time.Minute))}, "b", time.Second, []string{"a", "b"}},
		"a stall keeps a time": {[]Step[int]{step("a", DoneUntil(time.Second)), step("b", Stalled("R", "", 0))}, "b", time.Second, []string{"a", "b"}},
		"an error backs off":   {[]Step[int]{step("a", DoneUntil(time.Second)), step("b", Failed(errBoom))}, "b", 0, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			ran = nil
			o := Run(t.Context(), 0, c.steps)
			assert.Equal(t, c.step, o.Step)
			assert.Equal(t, c.after, o.Result.After)
			assert.Equal(t, c.ran, ran)
		})
	}
}

func TestGate(t *testing.T) {
	now := time.Unix(0, 0)
	g := NewGate(time.Second, 4*time.Second, func() time.Time { return now })
	_, closed := g.Closed("x", 1)
	assert.False(t, closed)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		r := g.Close("x", 1, Retry("R", errBoom, 0))
		assert.Equal(t, want, r.After, "later and later, up to the bound")
	}
	now = now.Add(time.Second)
	r, closed := g.Closed("x", 1)
	assert.True(t, closed)
	assert.Equal(t, 3*time.Second, r.After, "what is left")
	assert.Equal(t, "R", r.Reason)
	_, closed = g.Closed("x", 2)
	assert.False(t, closed, "another generation is tried at once")
	_, closed = g.Closed("y", 1)
	assert.False(t, closed)
	g.Open("x")
	_, closed = g.Closed("x", 1)
	assert.False(t, closed)
	assert.Equal(t, time.Second, g.Close("x", 1, Retry("R", errBoom, 0)).After, "the backoff starts anew")
}
