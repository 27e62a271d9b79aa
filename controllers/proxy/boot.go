package proxy

import (
	"context"
	"strings"
	"time"
	"unicode"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

const (
	// askGuest is the wait between two questions to a guest that may still boot, askSilentGuest to one that could not be
	// asked: every question occupies the host for seconds.
	askGuest       = 15 * time.Second
	askSilentGuest = time.Minute
	// serialTailBytes is how much of the console goes into the status.
	serialTailBytes = 4096
)

// boot asks the guest how its first boot went, until there is a final answer, and looks at the deadline. It is always done:
// what it found out is a fact for the conditions, and a guest that cannot be asked holds nothing up.
func (r *Reconciler) boot(ctx context.Context, s *scope) steps.Result {
	if s.machine == nil {
		return steps.Done()
	}
	after := r.checkDeadline(ctx, s)
	if old := s.proxy.Status.Boot; old != nil && finalBoot(providers.CloudInitState(old.CloudInit)) {
		return steps.DoneUntil(after)
	}
	return steps.DoneUntil(steps.Sooner(after, r.askGuest(ctx, s)))
}

func finalBoot(state providers.CloudInitState) bool {
	return state == providers.CloudInitDone || state == providers.CloudInitDegraded || state == providers.CloudInitError
}

// askGuest returns when to ask again; 0 is never.
func (r *Reconciler) askGuest(ctx context.Context, s *scope) time.Duration {
	inspector, ok := s.provider.(providers.GuestInspector)
	if !ok || s.proxy.Spec.GuestAgent == v1alpha1.GuestAgentNone {
		s.report = &providers.BootReport{CloudInit: providers.CloudInitUnknown, Message: "the guest is not asked: guestAgent is None or the provider cannot"}
		return 0
	}
	mine := r.memory.of(s.proxy.UID)
	if left := mine.guestAt.Add(mine.guestFor).Sub(r.Now()); left > 0 {
		return left
	}
	report, err := inspector.Boot(ctx, s.providerID)
	if err != nil {
		report = providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: providers.OutcomeOf(err).Reason, Message: err.Error()}
	}
	s.report = &report
	mine.guestAt, mine.guestFor = r.Now(), askGuest
	if report.CloudInit == providers.CloudInitUnknown && s.served() {
		mine.guestFor = askSilentGuest
	}
	return mine.guestFor
}

// consoleEvery is the wait after a console that was empty or could not be read: each look refreshes the whole pool on the host.
const consoleEvery = time.Minute

// checkDeadline marks the boot overdue, fetches the console for people to read, and returns when the deadline comes.
func (r *Reconciler) checkDeadline(ctx context.Context, s *scope) time.Duration {
	end, running := s.bootEnds()
	if !running || s.served() {
		return 0
	}
	if left := end.Sub(r.Now()); left > 0 {
		return left
	}
	s.overdue = true
	if old := s.proxy.Status.Boot; old != nil && old.SerialTail != "" {
		return 0
	}
	console, ok := s.provider.(providers.ConsoleReader)
	mine := r.memory.of(s.proxy.UID)
	if !ok || r.Now().Sub(mine.consoleAt) < consoleEvery {
		return 0
	}
	mine.consoleAt = r.Now()
	tail, err := console.ConsoleTail(ctx, s.providerID, serialTailBytes)
	if err != nil {
		log.FromContext(ctx).Info("the console cannot be read", "providerID", s.providerID, "reason", providers.OutcomeOf(err).Reason)
	}
	s.serialTail = printable(tail)
	return 0
}

// printable drops what a terminal would obey and an API server would refuse.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
}
