package providers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Registry is a set of providers by name. It is a value built once where the program is put together; there is no global
// one and nothing registers itself.
type Registry struct{ byName map[string]Provider }

// NewRegistry builds a registry.
//
// Errors: Invalid, when two providers have one name or a name is empty.
func NewRegistry(all ...Provider) (Registry, error) {
	r := Registry{byName: make(map[string]Provider, len(all))}
	for _, p := range all {
		name := p.Name()
		if _, dup := r.byName[name]; dup || name == "" {
			return Registry{}, &Error{Kind: Invalid, Msg: fmt.Sprintf("provider name %q is empty or taken", name)}
		}
		r.byName[name] = p
	}
	return r, nil
}

// Get returns the provider of that name.
//
// Errors: Invalid with reason UnknownProvider; the message lists the names that exist.
func (r Registry) Get(name string) (Provider, error) {
	if p, ok := r.byName[name]; ok {
		return p, nil
	}
	return nil, &Error{Kind: Invalid, Reason: "UnknownProvider", Msg: fmt.Sprintf("unknown provider %q: this manager has %s", name, strings.Join(r.Names(), ", "))}
}

// Names returns the providers' names, sorted.
func (r Registry) Names() []string { return slices.Sorted(maps.Keys(r.byName)) }
