package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
)

// named is a provider with a name and nothing else: any other call panics.
type named struct {
	providers.Provider
	name string
}

func (n named) Name() string { return n.name }

func TestRegistry(t *testing.T) {
	kvm, sim := named{name: "kvm"}, named{name: "simulated"}
	r, err := providers.NewRegistry(sim, kvm)
	require.NoError(t, err)
	assert.Equal(t, []string{"kvm", "simulated"}, r.Names())

	got, err := r.Get("kvm")
	require.NoError(t, err)
	assert.Equal(t, kvm, got)

	got, err = r.Get("aws")
	require.ErrorIs(t, err, providers.ErrPermanent, "no retry makes a provider appear")
	assert.Nil(t, got)
	assert.Equal(t, "UnknownProvider", providers.OutcomeOf(err).Reason)
	assert.ErrorContains(t, err, `unknown provider "aws": this manager has kvm, simulated`)
}

func TestRegistryRefuses(t *testing.T) {
	tests := map[string]struct {
		reason string
		all    []providers.Provider
	}{
		"a name twice": {"one of them would never be reached", []providers.Provider{named{name: "kvm"}, named{name: "kvm"}}},
		"no name":      {"IDs need a scheme", []providers.Provider{named{}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := providers.NewRegistry(tc.all...)
			require.ErrorIs(t, err, providers.Invalid, tc.reason)
			assert.Empty(t, r.Names())
		})
	}
}

func TestZeroRegistryHasNoProvider(t *testing.T) {
	_, err := providers.Registry{}.Get("kvm")
	assert.ErrorIs(t, err, providers.Invalid)
}
