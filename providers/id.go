package providers

import (
	"fmt"
	"strings"
)

// ProviderID names one machine over all providers and hosts: "<provider>://<host>/<machine>", for example
// "kvm://kvm1/6f1c…". It is stored in Proxy.status.providerID. The empty ID means: none yet.
type ProviderID string

// NewProviderID joins the three parts.
func NewProviderID(provider, host, machine string) ProviderID {
	return ProviderID(provider + "://" + host + "/" + machine)
}

// Split returns the three parts of an ID; provider is the scheme that it must have.
//
// Errors: Invalid, when it is malformed or of another provider.
func (id ProviderID) Split(provider string) (host, machine string, err error) {
	rest, ok := strings.CutPrefix(string(id), provider+"://")
	if !ok {
		return "", "", &Error{Kind: Invalid, Reason: "InvalidProviderID", Msg: fmt.Sprintf("provider ID %q is not of the form %s://<host>/<machine>", string(id), provider)}
	}
	host, machine, ok = strings.Cut(rest, "/")
	if !ok || host == "" || machine == "" || strings.Contains(machine, "/") {
		return "", "", &Error{Kind: Invalid, Reason: "InvalidProviderID", Msg: fmt.Sprintf("provider ID %q is not of the form %s://<host>/<machine>", string(id), provider)}
	}
	return host, machine, nil
}
