package probe

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func target(address string) Target {
	return Target{Identity: "a", Address: address, Interval: 30 * time.Second, Timeout: 10 * time.Second, FailureThreshold: 3, SuccessThreshold: 1}
}

// run gives fn a running prober in a bubble of synthetic time.
func run(t *testing.T, o Options, fn func(*Prober)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := NewProber(o)
		ended := make(chan error, 1)
		go func() { ended <- p.Start(ctx) }()
		synctest.Wait()
		fn(p)
		stop()
		require.NoError(t, <-ended)
	})
}

// pass lets d go by on the clock of the bubble, which takes no time.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // synthetic time
}

func always(class Class) func(context.Context, Target) Observation {
	return func(context.Context, Target) Observation { return Observation{Class: class, At: time.Now()} }
}

func half() float64 { return 0.5 }

func TestProberProbesForLifeAtItsInterval(t *testing.T) {
	var n atomic.Int32
	count := func(context.Context, Target) Observation { n.Add(1); return Observation{Class: Success} }
	run(t, Options{Concurrency: 1, Request: count, Control: count, Rand: half}, func(p *Prober) {
		p.Set("x", target("1"), State{})
		pass(10*time.Minute + time.Second)
		assert.Equal(t, int32(21), n.Load())
		p.Forget("x")
		pass(time.Hour)
		assert.Equal(t, int32(21), n.Load(), "forgotten is forgotten")
	})
}

func TestProberTellsOfChangesOnly(t *testing.T) {
	var news atomic.Int32
	class := atomic.Value{}
	class.Store(Success)
	do := func(context.Context, Target) Observation { return Observation{Class: class.Load().(Class)} }
	run(t, Options{Concurrency: 1, Request: do, Control: always(Success), Rand: half, Changed: func(string) { news.Add(1) }}, func(p *Prober) {
		p.Set("x", target("1"), State{Health: HealthUnknown})
		pass(time.Hour)
		assert.Equal(t, int32(1), news.Load(), "120 equal probes are one news")
		class.Store(Timeout)
		pass(time.Hour)
		assert.Equal(t, int32(2), news.Load())
		assert.Equal(t, Unhealthy, p.Set("x", target("1"), State{}).Health)
	})
}

func TestProberAsksTheTargetBeforeItCondemns(t *testing.T) {
	var controls atomic.Int32
	control := func(context.Context, Target) Observation { controls.Add(1); return Observation{Class: Timeout} }
	run(t, Options{Concurrency: 4, Request: always(UpstreamUnreachable), Control: control, Rand: half}, func(p *Prober) {
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			p.Set(key, target(key), State{Health: Healthy, Class: Success})
		}
		pass(time.Hour)
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			s := p.Set(key, target(key), State{})
			assert.Equal(t, Healthy, s.Health, "a broken target condemns nobody")
			assert.Equal(t, TargetUnavailable, s.Class)
		}
		assert.Positive(t, controls.Load())
	})
}

func TestProberBoundsItsConcurrency(t *testing.T) {
	var now, most atomic.Int32
	do := func(ctx context.Context, _ Target) Observation {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return Observation{Class: Success}
	}
	run(t, Options{Concurrency: 3, Request: do, Control: do, Rand: half}, func(p *Prober) {
		for i := range 20 {
			p.Set(string(rune('a'+i)), target("1"), State{})
		}
		pass(5 * time.Minute)
		assert.Equal(t, int32(3), most.Load())
	})
}

func TestProberForgetsTheVerdictWithTheAddress(t *testing.T) {
	run(t, Options{Concurrency: 1, Request: always(Success), Control: always(Success), Rand: half}, func(p *Prober) {
		p.Set("x", target("1"), State{})
		pass(time.Minute)
		changed := target("1")
		changed.Interval = time.Hour
		assert.Equal(t, Healthy, p.Set("x", changed, State{}).Health, "another interval is about the same proxy")
		assert.Equal(t, HealthUnknown, p.Set("x", target("2"), State{Health: Healthy}).Health, "another address is not")
	})
}

func TestProberSetBeforeStartAndVerdictOfAnEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewProber(Options{Concurrency: 1, Request: always(Success), Control: always(Success), Rand: half})
		assert.Equal(t, Healthy, p.Set("x", target("1"), State{Health: Healthy}).Health)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Start(ctx) }()
		pass(time.Minute)
		assert.Equal(t, Success, p.Set("x", target("1"), State{}).Class)
		stop()
		require.NoError(t, <-ended)
	})
}
