package proxy

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/steps"
	"github.com/proxyard/proxyard/providers"
)

// maxAddresses is what the status holds.
const maxAddresses = 16

// address takes the machine's addresses from its host. While the host cannot tell, or has forgotten (the guest agent is
// silent after a restart of the manager), the last known ones stand as long as the proxy serves at them.
func (r *Reconciler) address(_ context.Context, s *scope) steps.Result {
	if s.machine != nil {
		s.addresses = addressesOf(s.machine.Addresses)
	}
	if len(s.addresses) == 0 && (s.unsure != nil || s.wasHealthy()) {
		s.addresses = s.proxy.Status.Addresses
	}
	if len(s.addresses) == 0 {
		return steps.Wait(v1alpha1.ReasonNoAddress, "neither guest agent nor DHCP lease nor ARP knows an address of the machine yet", pollProgress)
	}
	return steps.Done()
}

func (s *scope) wasHealthy() bool {
	c := s.condition(v1alpha1.ConditionHealthy)
	return c != nil && c.Status == metav1.ConditionTrue
}

func addressesOf(all []providers.Address) []v1alpha1.ProxyAddress {
	var out []v1alpha1.ProxyAddress
	for _, a := range all[:min(len(all), maxAddresses)] {
		out = append(out, v1alpha1.ProxyAddress{IP: a.IP.String(), Source: a.Source})
	}
	return out
}
