package cloudinit

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxMerged bounds the keys that merge keys may bring in: nested ones multiply ("billion laughs").
const maxMerged = 10_000

// index is where key stands in the root's content, -1 when it does not stand there itself.
func (d *document) index(key string) int {
	if d.root == nil {
		return -1
	}
	for i := 0; i < len(d.root.Content); i += 2 {
		if k := target(d.root.Content[i]); k.Kind == yaml.ScalarNode && k.Value == key && pyTag(k) == tagStr {
			return i
		}
	}
	return -1
}

// lookup is the value that cloud-init sees for key, merge keys and aliases followed; nil when there is none.
func (d *document) lookup(key string) (*yaml.Node, error) {
	if i := d.index(key); i >= 0 {
		return target(d.root.Content[i+1]), nil
	}
	if d.root == nil {
		return nil, nil
	}
	budget := maxMerged
	v := merged(d.root, key, &budget)
	if budget < 0 {
		return nil, d.fault(d.root.Line, "merge keys bring in more than %d keys: write them out", maxMerged)
	}
	return v, nil
}

// merged finds key in mapping n as PyYAML's flatten_mapping orders it: a mapping's own keys win over merged ones, of several
// merge keys the last wins, and in a list of mappings the first.
func merged(n *yaml.Node, key string, budget *int) *yaml.Node {
	var own, inherited *yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		*budget--
		if *budget < 0 {
			return nil
		}
		k, v := target(n.Content[i]), target(n.Content[i+1])
		switch {
		case pyTag(k) == tagMerge:
			if found := mergedFrom(v, key, budget); found != nil {
				inherited = found
			}
		case k.Value == key && pyTag(k) == tagStr:
			own = v
		}
	}
	if own != nil {
		return own
	}
	return inherited
}

func mergedFrom(v *yaml.Node, key string, budget *int) *yaml.Node {
	if v.Kind == yaml.MappingNode {
		return merged(v, key, budget)
	}
	for _, m := range v.Content {
		if found := merged(target(m), key, budget); found != nil {
			return found
		}
	}
	return nil
}

// inherited are the lists that cloud-init would take from the vendor-data because the user-data has none of that name. A list
// that is added to the user-data would hide them, so it must begin with them.
func inherited(user, vendor *document) map[string][]*yaml.Node {
	lists := map[string][]*yaml.Node{}
	if vendor == nil || !takesVendorData(user) {
		return lists
	}
	for _, key := range []string{keyPackages, keyRuncmd} {
		if v, err := vendor.lookup(key); err == nil && v != nil {
			lists[key] = v.Content
		}
	}
	return lists
}

// takesVendorData reports whether the user lets cloud-init use vendor-data, which is the default.
func takesVendorData(user *document) bool {
	v, err := user.lookup("vendor_data")
	if err != nil || v == nil {
		return true
	}
	if v.Kind != yaml.MappingNode {
		return false
	}
	budget := maxMerged
	enabled := merged(v, "enabled", &budget)
	if enabled == nil {
		return true // mappings merge key by key, so cloud-init's default stays
	}
	switch strings.ToLower(strings.TrimSpace(enabled.Value)) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}
