// Package providers is the contract between Proxyard's controllers and whatever makes a machine.
//
// Plain values cross this line and nothing else: no Kubernetes objects, no SDK types. The package imports the standard
// library only, so a provider can be written, tested and read without knowing the operator. Controllers are its callers;
// providers/kvm and providers/simulated implement it, and providers/providertest is the suite that every one of them passes.
package providers

import "context"

// Provider makes, finds and removes machines.
//
// Every method is safe for concurrent use, returns within seconds, and honours ctx. Long work (an image upload, a graceful
// stop) goes on in the background of the provider: the method then answers an error of kind InProgress that says in words
// what it waits for, and the caller comes back later or when an [EventSource] tells it to.
//
// Three answers never collapse into two: there (a Status), not there (NotFound), could not tell (Unreachable, Busy, Internal).
// A host that was never handed over, or was removed, cannot be asked: Get and Delete answer Unreachable. When ctx ends before
// the answer, the error is Unreachable and wraps ctx.Err(); what the call had begun is converged on by the next one.
//
// A provider serves one installation. Machines of another cluster ID are foreign to it like everybody else's.
type Provider interface {
	// Name is the value of Proxy.spec.provider and the scheme of every ProviderID of this provider.
	Name() string

	// Create converges on exactly one running machine for m.Tag on m.Host. It looks first: it starts what exists, repairs
	// what is half made and creates what is missing, so that it can be called again after a crash between any two steps.
	// The returned Status carries the ID whenever the ID can be derived, also beside an error. A nil error means: it runs.
	// A failure that is Invalid leaves nothing behind. Of two calls at once for one machine, one may be Busy.
	//
	// Errors: Invalid (m can never work: the caller waits for another m, or m is of another cluster ID), Exists (a foreign machine or volume has the name
	// of ours; it is untouched), Denied, Exhausted (no room on that host), NotFound (no such host), InProgress, Busy,
	// Unreachable, Internal.
	Create(ctx context.Context, m Machine) (Status, error)

	// Get tells the state of one machine. It knows at once what this provider's Create and Delete have done; what happens
	// behind its back it may learn with delay. A half-made machine is there, in StateIncomplete.
	//
	// Errors: Invalid (an ID that this provider cannot have given), NotFound (the host answered and the machine is not
	// there), Exists (a foreign machine has this identity), Denied, Busy, Unreachable, Internal.
	Get(ctx context.Context, id ProviderID) (Status, error)

	// Delete removes the machine and everything that was made for it. It answers nil only when it has seen that nothing
	// is left; a machine that never was, or is gone already, is nil as well, on a host that answered. A machine that merely
	// has the name of ours under another identity does not count as left, and is untouched.
	//
	// Errors: Invalid, Exists (what is there is not ours; it is untouched), Denied, InProgress (a graceful stop is under
	// way), Busy, Unreachable, Internal.
	Delete(ctx context.Context, id ProviderID) error

	// ListByTag finds every machine that carries the tag, half-made ones included, host by host. Empty fields of the tag
	// match everything, but ClusterID must be set. Hosts that did not answer completely are named in the Listing: what
	// they hold is unknown, not gone. An error means that nothing at all could be told.
	//
	// The disks of a half-made machine may tell the installation only: its Status.Tag then holds no more than the ClusterID
	// and what the query said, a query by UID finds it, and a query by name without UID may not.
	//
	// Errors: Invalid (no ClusterID, or that of another installation: its machines are never looked at), Internal.
	ListByTag(ctx context.Context, tag Tag) (Listing, error)
}

// HostSource is implemented by providers whose machines live on hosts that somebody hands to them. The provider never
// looks for hosts by itself.
type HostSource interface {
	// SetHost adds a host or replaces what is known of it, credentials included, and returns at once: connecting goes on
	// in the background. Handing over an equal Host again changes nothing.
	//
	// Errors: Invalid (a field of h cannot work: unknown scheme, unusable key …).
	SetHost(ctx context.Context, h Host) error

	// RemoveHost closes what is open to the host and forgets it; one that was never set is fine. Machines on it stay as they
	// are.
	RemoveHost(ctx context.Context, name string) error

	// HostStatus is the latest that is known of a host; it does not wait for the host.
	//
	// Errors: NotFound (no such host was set).
	HostStatus(ctx context.Context, name string) (HostStatus, error)
}

// EventSource is implemented by providers that can say when something may have changed.
type EventSource interface {
	// Subscribe calls fn for every event until cancel is called. fn must not block and must not call the provider: it only
	// enqueues. Events are hints to look; they may be lost, doubled or late, and never carry the truth themselves. An event
	// names its host; with an empty ID it means the host itself, or any machine on it.
	Subscribe(fn func(Event)) (cancel func())
}

// GuestInspector is implemented by providers that can look into a running guest.
type GuestInspector interface {
	// Boot reports how far the guest's first boot got. A guest that cannot or may not answer is CloudInitUnknown with the
	// reason in BootReport.Message, not an error.
	//
	// Errors: as Get.
	Boot(ctx context.Context, id ProviderID) (BootReport, error)
}

// ConsoleReader is implemented by providers that keep what a machine wrote to its serial console.
type ConsoleReader interface {
	// ConsoleTail returns at most limit bytes from the end of the console log, empty when nothing was written yet.
	//
	// Errors: as Get.
	ConsoleTail(ctx context.Context, id ProviderID, limit int) (string, error)
}
