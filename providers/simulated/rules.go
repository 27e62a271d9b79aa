package simulated

import (
	"slices"
	"time"
)

// Op is a call of the provider.
type Op string

// The calls.
const (
	OpCreate Op = "Create"
	OpGet    Op = "Get"
	OpDelete Op = "Delete"
	OpList   Op = "ListByTag"
	OpGuest  Op = "Guest" // Boot and ConsoleTail
)

// Step is one exchange with the host within a call.
type Step string

// The steps. Create runs lookup, image, disk, seed, define, start; Delete lookup, stop, undefine, remove disk, remove seed.
const (
	StepLookup     Step = "lookup"
	StepImage      Step = "image"
	StepDisk       Step = "disk"
	StepSeed       Step = "seed"
	StepDefine     Step = "define"
	StepStart      Step = "start"
	StepStop       Step = "stop"
	StepUndefine   Step = "undefine"
	StepRemoveDisk Step = "remove disk"
	StepRemoveSeed Step = "remove seed"
)

// CreateSteps are the steps of Create that have an effect, in order.
func CreateSteps() []Step { return []Step{StepImage, StepDisk, StepSeed, StepDefine, StepStart} }

// DeleteSteps are the steps of Delete that have an effect, in order.
func DeleteSteps() []Step { return []Step{StepStop, StepUndefine, StepRemoveDisk, StepRemoveSeed} }

// When tells the two sides of an effect apart: an error after it is the case of an answer that got lost.
type When int

// Before and after the effect.
const (
	Before When = iota
	After
)

// Rule makes calls of one provider slow, fail or crash. Empty Op, Step and Host match all.
type Rule struct {
	Op   Op
	Step Step
	Host string
	When When
	// Nth is the first match that is struck, counted from 1; 0 means the first.
	Nth int
	// Times is the number of matches that are struck; 0 means every one from the Nth on.
	Times int

	// Latency passes first, on the World's clock; the end of the call's ctx cuts it short.
	Latency time.Duration
	// Do runs at that point, without any lock: for a test that wants to act in the middle of a call.
	Do func()
	// Err is what the call answers.
	Err error
	// Crash ends the manager at that point: what is half made stays, and every later call on this provider fails.
	Crash bool

	seen int
}

// Inject adds a rule until remove is called.
func (f *Faults) Inject(r Rule) (remove func()) {
	w := f.p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	f.p.rules = append(f.p.rules, &r)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f.p.rules = slices.DeleteFunc(f.p.rules, func(x *Rule) bool { return x == &r })
	}
}

// matching counts this point against every rule that means it, and returns those that strike.
func (p *Provider) matching(c *call, s Step, w When) []*Rule {
	var hits []*Rule
	for _, r := range p.rules {
		if (r.Op != "" && r.Op != c.op) || (r.Step != "" && r.Step != s) || (r.Host != "" && r.Host != c.host) || r.When != w {
			continue
		}
		r.seen++
		first := max(r.Nth, 1)
		if r.seen >= first && (r.Times == 0 || r.seen < first+r.Times) {
			hits = append(hits, r)
		}
	}
	return hits
}
