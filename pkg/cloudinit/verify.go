package cloudinit

import "go.yaml.in/yaml/v3"

// becomes reports whether after is d with e at the end of the list that began with before, and nothing else changed.
func (d *document) becomes(after *document, e entry, before []*yaml.Node) bool {
	same := comparison{}
	i := after.index(e.key)
	if i < 0 {
		return false
	}
	list := target(after.root.Content[i+1])
	if pyTag(list) != tagSeq || len(list.Content) != len(before)+1 {
		return false
	}
	for k, n := range before {
		if !same.nodes(n, list.Content[k]) {
			return false
		}
	}
	if last := list.Content[len(before)]; pyTag(last) != tagStr || last.Value != e.value {
		return false
	}
	return same.lists(d.others(e.key), after.others(e.key))
}

// others are the keys and values of the root without key.
func (d *document) others(key string) []*yaml.Node {
	if d.root == nil {
		return nil
	}
	i := d.index(key)
	if i < 0 {
		return d.root.Content
	}
	return append(append([]*yaml.Node{}, d.root.Content[:i]...), d.root.Content[i+2:]...)
}

// comparison remembers the pairs that it has compared or is comparing, so that aliases, which may nest and even recur, cost
// their pairs once.
type comparison map[[2]*yaml.Node]bool

// nodes reports whether PyYAML makes the same of a and b.
func (c comparison) nodes(a, b *yaml.Node) bool {
	a, b = target(a), target(b)
	pair := [2]*yaml.Node{a, b}
	if same, ok := c[pair]; ok {
		return same
	}
	c[pair] = true
	c[pair] = a.Kind == b.Kind && pyTag(a) == pyTag(b) && (a.Value == b.Value || pyTag(a) == tagNull) && c.lists(a.Content, b.Content)
	return c[pair]
}

func (c comparison) lists(a, b []*yaml.Node) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !c.nodes(a[i], b[i]) {
			return false
		}
	}
	return true
}
