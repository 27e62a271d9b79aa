package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

func TestProviderIDRoundTrip(t *testing.T) {
	for name, part := range map[string][2]string{
		"plain":       {"kvm1", "6f1c8a52-7f0e-5a0a-8d7c-0123456789ab"},
		"dotted host": {"kvm1.lab.example", "m"},
	} {
		t.Run(name, func(t *testing.T) {
			id := providers.NewProviderID("kvm", part[0], part[1])
			host, machine, err := id.Split("kvm")
			require.NoError(t, err)
			assert.Equal(t, part[0], host)
			assert.Equal(t, part[1], machine)
		})
	}
}

func TestProviderIDSplitRefuses(t *testing.T) {
	tests := map[string]struct {
		reason string
		id     providers.ProviderID
	}{
		"empty":               {"none yet", ""},
		"no scheme":           {"not of a provider", "kvm1/m"},
		"one slash":           {"not of the form", "kvm:/kvm1/m"},
		"another provider":    {"never act on another's machine", "simulated://kvm1/m"},
		"prefix of the name":  {"kvm is not kvm2", "kvm2://kvm1/m"},
		"upper case scheme":   {"IDs are compared byte for byte", "KVM://kvm1/m"},
		"no host":             {"a machine is on a host", "kvm:///m"},
		"no machine":          {"a host is no machine", "kvm://kvm1/"},
		"host only":           {"a host is no machine", "kvm://kvm1"},
		"too many parts":      {"nothing may hide behind the machine", "kvm://kvm1/m/n"},
		"slash at the end":    {"one form only", "kvm://kvm1/m/"},
		"space before scheme": {"one form only", " kvm://kvm1/m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			host, machine, err := tc.id.Split("kvm")
			require.ErrorIs(t, err, providers.Invalid, tc.reason)
			assert.Empty(t, host+machine, "nothing to act on beside an error")
			assert.Equal(t, "InvalidProviderID", providers.OutcomeOf(err).Reason)
			assert.ErrorContains(t, err, "kvm://<host>/<machine>", "the message shows the form")
		})
	}
}
