package kvm

import (
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/assert"

	"github.com/proxyard/proxyard/providers"
)

func TestStateWords(t *testing.T) {
	for name, tc := range map[string]struct {
		in     domainState
		want   providers.State
		reason string
		active bool
	}{
		"running":               {domainState{libvirt.DomainRunning, 1}, providers.StateRunning, "Running", true},
		"blocked":               {domainState{libvirt.DomainBlocked, 0}, providers.StateRunning, "Running", true},
		"paused by a full pool": {domainState{libvirt.DomainPaused, 5}, providers.StateFailed, "DiskIOError", true},
		"paused by hand":        {domainState{libvirt.DomainPaused, 1}, providers.StatePaused, "PausedByUser", true},
		"starting up":           {domainState{libvirt.DomainPaused, 11}, providers.StateRunning, "StartingUp", true},
		"guest panicked":        {domainState{libvirt.DomainPaused, 10}, providers.StateFailed, "GuestCrashed", true},
		"being shut down":       {domainState{libvirt.DomainShutdown, 1}, providers.StateStopping, "ShuttingDown", true},
		"powered off":           {domainState{libvirt.DomainShutoff, 1}, providers.StateStopped, "StoppedByGuest", false},
		"destroyed":             {domainState{libvirt.DomainShutoff, 2}, providers.StateStopped, "Destroyed", false},
		"crashed and off":       {domainState{libvirt.DomainShutoff, 3}, providers.StateFailed, "Crashed", false},
		"host rebooted":         {domainState{libvirt.DomainShutoff, 8}, providers.StateStopped, "HostRestarted", false},
		"off, unknown reason":   {domainState{libvirt.DomainShutoff, 77}, providers.StateStopped, "Stopped", false},
		"crashed":               {domainState{libvirt.DomainCrashed, 1}, providers.StateFailed, "Crashed", true},
		"suspended":             {domainState{libvirt.DomainPmsuspended, 0}, providers.StatePaused, "Suspended", true},
		"no state":              {domainState{libvirt.DomainNostate, 0}, providers.StateUnknown, "NoState", false},
		"of a later libvirt":    {domainState{libvirt.DomainState(42), 0}, providers.StateUnknown, "UnknownState", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := tc.in.word()
			assert.Equal(t, tc.want, w.state)
			assert.Equal(t, tc.reason, w.reason)
			assert.Equal(t, tc.active, tc.in.active(), "an active domain must be destroyed before its disks go")
		})
	}
}
