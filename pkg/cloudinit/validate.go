package cloudinit

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds nesting: Python's recursion limit stops PyYAML at some 300 levels.
const maxDepth = 100

// checkNodes refuses what PyYAML's composer and constructor refuse, after which cloud-init drops the whole document.
func (d *document) checkNodes() error {
	if d.root == nil {
		return nil
	}
	c := checker{document: d, anchors: map[string]int{}}
	return c.check(d.root, 1)
}

// checker is one run of checkNodes; anchors maps each name to its line.
type checker struct {
	*document
	anchors map[string]int
}

func (c *checker) check(n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return c.fault(n.Line, "nested deeper than %d levels, which cloud-init cannot read: flatten it", maxDepth)
	}
	if n.Anchor != "" {
		if line, ok := c.anchors[n.Anchor]; ok {
			return c.fault(n.Line, "an anchor (a word that begins with &) exists already on line %d: rename one of them, or quote the text if it is no anchor", line)
		}
		c.anchors[n.Anchor] = n.Line
	}
	if n.Kind == yaml.AliasNode {
		return nil
	}
	if err := c.checkTag(n); err != nil {
		return err
	}
	for i := range n.Content {
		if err := c.checkChild(n, i, depth); err != nil {
			return err
		}
	}
	return nil
}

// checkChild checks the i-th node inside n, which lies at depth.
func (c *checker) checkChild(n *yaml.Node, i, depth int) error {
	child := n.Content[i]
	if n.Kind == yaml.MappingNode && i%2 == 0 {
		if err := c.checkKey(child, n.Content[i+1]); err != nil {
			return err
		}
		if pyTag(child) == tagMerge || pyTag(child) == tagValue {
			return nil
		}
	}
	if n.Style&yaml.FlowStyle != 0 && isPlain(child) && strings.HasSuffix(child.Value, ":") {
		return c.fault(child.Line, "a colon stands before a comma or bracket, where cloud-init sees a key and other readers text: write a space after the colon, or put the text in quotes")
	}
	return c.check(child, depth+1)
}

func isPlain(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style&^(yaml.TaggedStyle|yaml.FlowStyle) == 0
}

func (c *checker) checkTag(n *yaml.Node) error {
	tag := pyTag(n)
	fits := true
	switch n.Kind {
	case yaml.ScalarNode:
		switch {
		case tag == tagMerge, tag == tagValue:
			return c.fault(n.Line, "%q alone is a special word of YAML that cloud-init cannot read here: put it in quotes", n.Value)
		case known(tag) && n.Style&yaml.TaggedStyle == 0 && !constructible(tag, n.Value):
			return c.fault(n.Line, "a value here reads as %s but is none, so cloud-init stops: put it in quotes", strings.TrimPrefix(tag, "!!"))
		}
		fits = constructible(tag, n.Value)
	case yaml.MappingNode:
		fits = tag == tagMap || tag == tagSet
	case yaml.SequenceNode:
		fits = tag == tagSeq || ((tag == tagOmap || tag == tagPairs) && allPairs(n))
	}
	switch {
	case !known(tag):
		// Not named: it may be a password that begins with "!" and lacks its quotes.
		return c.fault(n.Line, "a tag (a word that begins with !) is unknown to cloud-init: remove the tag, or quote the text if it is no tag")
	case !fits:
		return c.fault(n.Line, "the tag %s does not fit its value: remove the tag", tag)
	}
	return nil
}

func known(tag string) bool {
	switch tag {
	case tagStr, tagNull, tagBool, tagInt, tagFloat, tagTimestamp, tagMap, tagSeq, tagBinary, tagSet, tagOmap, tagPairs, "":
		return true
	}
	return false
}

// allPairs reports whether a !!omap or !!pairs is one.
func allPairs(n *yaml.Node) bool {
	for _, c := range n.Content {
		if c.Kind != yaml.MappingNode || len(c.Content) != 2 {
			return false
		}
	}
	return true
}

// checkKey wants keys that Python can hash, and merge keys that have mappings to merge.
func (c *checker) checkKey(key, value *yaml.Node) error {
	if pyTag(key) == tagMerge {
		return c.checkMerge(value)
	}
	if target(key).Kind == yaml.ScalarNode {
		return nil
	}
	if key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0 {
		return c.fault(key.Line, `a mapping is used as a key (did you mean a template?): quote "{{ }}", or begin the document with "## template: jinja" above #cloud-config`)
	}
	return c.fault(key.Line, "a list or mapping is used as a key, which cloud-init cannot read: use text as the key")
}

func (c *checker) checkMerge(value *yaml.Node) error {
	merged := []*yaml.Node{value}
	if target(value).Kind == yaml.SequenceNode {
		merged = target(value).Content
	}
	for _, m := range merged {
		// PyYAML composes no alias inside the list to anything but the mapping itself.
		if target(m).Kind != yaml.MappingNode {
			return c.fault(value.Line, "the merge key << must have a mapping or a list of mappings: correct it, or put << in quotes")
		}
	}
	return nil
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// checkConfig refuses a cloud-config that is none, or whose lists are none.
func (d *document) checkConfig() error {
	if d.root == nil {
		return nil
	}
	if pyTag(d.root) != tagMap {
		return d.fault(d.root.Line, "a cloud-config must be a mapping such as \"packages: [squid]\": cloud-init ignores anything else")
	}
	seen := map[string]int{}
	for i := 0; i < len(d.root.Content); i += 2 {
		key := target(d.root.Content[i])
		id := pyTag(key) + " " + key.Value
		if line, ok := seen[id]; ok && pyTag(key) != tagMerge {
			return d.fault(d.root.Content[i].Line, "the key %q stands already on line %d and cloud-init would use only the last: join the two", key.Value, line)
		}
		seen[id] = d.root.Content[i].Line
	}
	for _, key := range []string{keyPackages, keyRuncmd} {
		v, err := d.lookup(key)
		if err != nil {
			return err
		}
		if v != nil && pyTag(v) != tagNull && (v.Kind != yaml.SequenceNode || pyTag(v) != tagSeq) {
			return d.fault(v.Line, "%s must be a list: write each entry on its own line after \"- \"", key)
		}
	}
	return nil
}
