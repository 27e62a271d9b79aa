package cloudinit

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// findOpaque locates the quoted and the block scalars: the library gives only where they begin.
func (d *document) findOpaque() error {
	var err error
	d.walk(func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || err != nil {
			return
		}
		var s span
		switch from := d.skipProperties(d.offset(n)); {
		case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
			s = span{from, d.quotedEnd(from)}
		case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
			s = span{from, d.blockEnd(from, n.Value)}
		default:
			return
		}
		if s.to < 0 {
			err = d.fault(n.Line, "the end of a scalar was not found, or text follows | or >: put quotes around it, or a line break there")
		}
		d.opaque = append(d.opaque, s)
	})
	slices.SortFunc(d.opaque, func(a, b span) int { return a.from - b.from })
	return err
}

// walk calls f for each node as written; aliases are not followed.
func (d *document) walk(f func(*yaml.Node)) {
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		f(n)
		for _, c := range n.Content {
			visit(c)
		}
	}
	if d.root != nil {
		visit(d.root)
	}
}

// opaqueAt is the opaque scalar that holds offset i.
func (d *document) opaqueAt(i int) (span, bool) {
	k, _ := slices.BinarySearchFunc(d.opaque, i, func(s span, i int) int {
		if s.to <= i {
			return -1
		}
		return 1
	})
	if k < len(d.opaque) && d.opaque[k].from <= i {
		return d.opaque[k], true
	}
	return span{}, false
}

// skipBlank skips spaces, line breaks and comments from i on.
func (d *document) skipBlank(i int) int {
	for i < len(d.src) {
		switch n := breakAt(d.src, i); {
		case n > 0:
			i += n
		case d.src[i] == ' ' || d.src[i] == '\t':
			i++
		case d.isComment(i):
			i = d.lineEnd(i)
		default:
			return i
		}
	}
	return i
}

// skipProperties skips anchor and tag.
func (d *document) skipProperties(i int) int {
	for i < len(d.src) && (d.src[i] == '&' || d.src[i] == '!') {
		i = d.skipBlank(d.tokenEnd(i))
	}
	return i
}

// tokenEnd is the next white space.
func (d *document) tokenEnd(i int) int {
	for i < len(d.src) && d.src[i] != ' ' && d.src[i] != '\t' && breakAt(d.src, i) == 0 {
		i++
	}
	return i
}

// lineEnd is the offset of the line break after i.
func (d *document) lineEnd(i int) int {
	for i < len(d.src) && breakAt(d.src, i) == 0 {
		i++
	}
	return i
}

// isComment reports whether a comment begins at i, given that i is not inside an opaque scalar.
func (d *document) isComment(i int) bool {
	return d.src[i] == '#' && (i == 0 || d.src[i-1] == ' ' || d.src[i-1] == '\t' || d.starts[d.lineAt(i)-1] == i)
}

func (d *document) quotedEnd(i int) int {
	if i >= len(d.src) {
		return -1
	}
	quote := d.src[i]
	for i++; i < len(d.src); i++ {
		switch {
		case d.src[i] == '\\' && quote == '"':
			i++
		case d.src[i] == quote && quote == '\'' && i+1 < len(d.src) && d.src[i+1] == quote:
			i++
		case d.src[i] == quote:
			return i + 1
		}
	}
	return -1
}

// blockEnd is where a block scalar whose indicator stands at i ends: its trailing blank lines are part of it. The value
// tells how deep its first line was indented beyond the block.
func (d *document) blockEnd(i int, value string) int {
	header := i + 1
	for header < len(d.src) && strings.IndexByte("+-0123456789", d.src[header]) >= 0 {
		header++
	}
	if d.tokenEnd(header) != header {
		return -1 // text or a comment right behind the indicator: PyYAML wants a space
	}
	n := d.lineAt(i) + 1
	indent := -1
	for ; n <= len(d.starts); n++ {
		text := bytes.TrimRight(d.line(n), "\r\n\u0085\u2028\u2029")
		have := len(text) - len(bytes.TrimLeft(text, " "))
		if have == len(text) {
			continue
		}
		if indent < 0 {
			first := strings.TrimLeft(value, "\n")
			if strings.Trim(first, " \n") == "" {
				break
			}
			indent = have - (len(first) - len(strings.TrimLeft(first, " ")))
		}
		if have < indent {
			break
		}
	}
	if n > len(d.starts) {
		return len(d.src)
	}
	return d.starts[n-1]
}

// checkTabs refuses tabs between tokens, at which PyYAML stops although YAML allows some of them.
func (d *document) checkTabs() error {
	for i := 0; i < len(d.src); i++ {
		if s, ok := d.opaqueAt(i); ok {
			i = s.to - 1
			continue
		}
		switch {
		case d.isComment(i):
			i = d.lineEnd(i) - 1
		case d.src[i] == '\t':
			return d.fault(d.lineAt(i), "a tab stands between words or as indentation, at which cloud-init stops: use spaces, or quote the text")
		}
	}
	return nil
}
