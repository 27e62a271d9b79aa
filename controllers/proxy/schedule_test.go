package proxy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proxyard/proxyard/apis/v1alpha1"
)

func TestBurstDoesNotLandOnOneHypervisor(t *testing.T) {
	w := newWorld(t, hypervisor("kvm1"), hypervisor("kvm2"), hypervisor("kvm3"))
	counts := map[string]int{}
	for i := range 9 {
		p := shop(func(p *v1alpha1.Proxy) {
			p.Name, p.UID = fmt.Sprintf("shop-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
		})
		require.NoError(t, w.client.Create(t.Context(), p))
		req, err := placementRequest(&p.Spec)
		require.NoError(t, err)
		// The choice is not written back: as if the cache lagged behind by the whole burst.
		d, err := w.r.reserve(t.Context(), p.UID, req)
		require.NoError(t, err)
		counts[d.Node]++
	}
	assert.Equal(t, map[string]int{"kvm1": 3, "kvm2": 3, "kvm3": 3}, counts)
}

func TestReservationsOfDeletedProxiesEnd(t *testing.T) {
	w := newWorld(t, hypervisor("kvm1"))
	req, err := placementRequest(&shop().Spec)
	require.NoError(t, err)
	_, err = w.r.reserve(t.Context(), "gone", req)
	require.NoError(t, err)
	_, err = w.r.reserve(t.Context(), "next", req)
	require.NoError(t, err)
	assert.NotContains(t, w.r.reservations.byUID, types.UID("gone"))
}

func TestHostnameIsALabel(t *testing.T) {
	long := "a-name-that-is-much-longer-than-a-dns-label-may-be-and-ends-right-."
	assert.Equal(t, "shop-eu", hostname("shop.eu"))
	assert.LessOrEqual(t, len(hostname(long)), 63)
	assert.NotRegexp(t, `-$`, hostname(long))
}

func TestMalformedSelectorStalls(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "site", Operator: "Near"}}}
	w := newWorld(t, shop(func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.ProxyPlacement{HypervisorSelector: bad} }), hypervisor("kvm1"))
	p := w.mustReconcile()
	assert.Contains(t, conditionOf(t, p, v1alpha1.ConditionScheduled).Message, "hypervisorSelector")
	assert.Equal(t, v1alpha1.PhaseFailed, p.Status.Phase)
}
