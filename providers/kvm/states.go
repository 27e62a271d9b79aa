package kvm

import (
	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
)

// domainState is libvirt's state and the reason for it.
type domainState struct {
	state  libvirt.DomainState
	reason int32
}

// active reports whether a domain holds resources: it must be destroyed before its disks go.
func (s domainState) active() bool {
	return s.state != libvirt.DomainShutoff && s.state != libvirt.DomainNostate
}

// word is a machine state in our words.
type word struct {
	state           providers.State
	reason, message string
}

// words maps libvirt's state and reason to ours. A pair that is not listed has the state's own word, under reason -1.
// Values: include/libvirt/libvirt-domain.h, virDomainState and virDomain…Reason.
var words = map[domainState]word{
	{libvirt.DomainNostate, -1}: {providers.StateUnknown, "NoState", "libvirt gives no state for the domain"},
	{libvirt.DomainRunning, -1}: {providers.StateRunning, "Running", ""},
	// Blocked on a resource is how a busy domain looks, not a fault.
	{libvirt.DomainBlocked, -1}:                                       {providers.StateRunning, "Running", ""},
	{libvirt.DomainPaused, -1}:                                        {providers.StatePaused, "Paused", "the domain is paused"},
	{libvirt.DomainPaused, int32(libvirt.DomainPausedUser)}:           {providers.StatePaused, "PausedByUser", "somebody paused the domain on the host; virsh resume continues it"},
	{libvirt.DomainPaused, int32(libvirt.DomainPausedIoerror)}:        {providers.StateFailed, "DiskIOError", "disk I/O error: the domain is paused; is the storage pool full?"},
	{libvirt.DomainPaused, int32(libvirt.DomainPausedWatchdog)}:       {providers.StateFailed, "Watchdog", "the guest's watchdog paused the domain"},
	{libvirt.DomainPaused, int32(libvirt.DomainPausedCrashed)}:        {providers.StateFailed, "GuestCrashed", "the guest's kernel crashed"},
	{libvirt.DomainPaused, int32(libvirt.DomainPausedStartingUp)}:     {providers.StateRunning, "StartingUp", "the domain is starting"},
	{libvirt.DomainPaused, int32(libvirt.DomainPausedMigration)}:      {providers.StateUnknown, "Migrating", "the domain is being migrated"},
	{libvirt.DomainPaused, int32(libvirt.DomainPausedPostcopy)}:       {providers.StateUnknown, "Migrating", "the domain is being migrated"},
	{libvirt.DomainPaused, int32(libvirt.DomainPausedPostcopyFailed)}: {providers.StateUnknown, "Migrating", "the domain's migration failed half way"},
	{libvirt.DomainShutdown, -1}:                                      {providers.StateStopping, "ShuttingDown", "the domain is shutting down"},
	{libvirt.DomainShutoff, -1}:                                       {providers.StateStopped, "Stopped", "the domain is off"},
	{libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown)}:     {providers.StateStopped, "StoppedByGuest", "the guest powered itself off"},
	{libvirt.DomainShutoff, int32(libvirt.DomainShutoffDestroyed)}:    {providers.StateStopped, "Destroyed", "the domain was destroyed on the host"},
	{libvirt.DomainShutoff, int32(libvirt.DomainShutoffCrashed)}:      {providers.StateFailed, "Crashed", "the domain crashed"},
	{libvirt.DomainShutoff, int32(libvirt.DomainShutoffSaved)}:        {providers.StateStopped, "Saved", "the domain was saved to disk"},
	{libvirt.DomainShutoff, int32(libvirt.DomainShutoffFailed)}:       {providers.StateFailed, "StartFailed", "QEMU ended while the domain started"},
	{libvirt.DomainShutoff, int32(libvirt.DomainShutoffDaemon)}:       {providers.StateStopped, "HostRestarted", "the host's libvirt daemon stopped the domain"},
	{libvirt.DomainCrashed, -1}:                                       {providers.StateFailed, "Crashed", "the domain crashed"},
	{libvirt.DomainPmsuspended, -1}:                                   {providers.StatePaused, "Suspended", "the guest suspended itself"},
}

func (s domainState) word() word {
	if w, ok := words[s]; ok {
		return w
	}
	if w, ok := words[domainState{s.state, -1}]; ok {
		return w
	}
	return word{providers.StateUnknown, "UnknownState", "libvirt reports a state that this version does not know"}
}
