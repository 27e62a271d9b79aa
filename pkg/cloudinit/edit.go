package cloudinit

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// edit replaces the text from..to by text.
type edit struct {
	from, to int
	text     string
}

// add is d with e at the end of the list e.key; before are the items that the list has now. It tries the ways of writing it
// that fit, the least intrusive first, and takes the first whose result reads as it must; errNoWay when none does.
func (d *document) add(e entry, before []*yaml.Node) (*document, error) {
	for _, way := range d.ways(e.key) {
		edits, err := way(e, before)
		if err != nil || edits == nil {
			continue
		}
		out, err := parse(d.field, d.apply(edits))
		if err == nil && out.checkConfig() == nil && d.becomes(out, e, before) {
			return out, nil
		}
	}
	return nil, errNoWay
}

var errNoWay = errors.New("no way of writing the entry keeps the rest")

type way func(e entry, before []*yaml.Node) ([]edit, error)

// ways are those that fit what key has now.
func (d *document) ways(key string) []way {
	i := d.index(key)
	switch {
	case d.root == nil:
		return []way{d.appendText}
	case i < 0 && d.root.Style&yaml.FlowStyle != 0:
		return []way{d.newFlowKey}
	case i < 0:
		return []way{d.newKey}
	}
	switch v := d.root.Content[i+1]; {
	case v.Kind == yaml.AliasNode:
		return []way{d.replaceAlias}
	case v.Kind == yaml.ScalarNode:
		return []way{d.fillNull}
	case v.Style&yaml.FlowStyle != 0:
		return []way{d.appendFlow, d.replaceFlow}
	default:
		return []way{d.appendBlock, d.replaceBlock}
	}
}

func (d *document) apply(edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(d.src[at:max(at, e.from)])
		out.WriteString(e.text)
		at = max(at, e.to)
	}
	out.Write(d.src[at:])
	return out.Bytes()
}

// appendText writes a first key at the end of an empty document.
func (d *document) appendText(e entry, before []*yaml.Node) ([]edit, error) {
	text, err := keyText(e, before, "", d.eol)
	at := d.end()
	if at > 0 && d.starts[d.lineAt(at)-1] != at {
		text = d.eol + text
	}
	return []edit{{at, at, text}}, err
}

// newKey writes a key above the first one: the end of a document is where block scalars and missing line breaks lie in wait.
func (d *document) newKey(e entry, before []*yaml.Node) ([]edit, error) {
	line := d.root.Content[0].Line
	at := d.starts[line-1]
	text, err := keyText(e, before, d.indent(line), d.eol)
	return []edit{{at, at, text}}, err
}

// indent is the spaces at the start of a line.
func (d *document) indent(line int) string {
	text := d.line(line)
	return string(text[:len(text)-len(bytes.TrimLeft(text, " "))])
}

// keyText is a key with its list, as lines.
func keyText(e entry, before []*yaml.Node, indent, eol string) (string, error) {
	if len(before) == 0 {
		return indent + e.key + ":" + eol + indent + "- " + blockText(e.value) + eol, nil
	}
	list, err := flowList(before, e.value)
	return indent + e.key + ": " + list + eol, err
}

// newFlowKey writes a key into a root in braces.
func (d *document) newFlowKey(e entry, before []*yaml.Node) ([]edit, error) {
	list, err := flowList(before, e.value)
	text := strconv.Quote(e.key) + ": " + list
	if len(d.root.Content) > 0 {
		text += ", "
	}
	at := d.skipProperties(d.offset(d.root)) + 1
	return []edit{{at, at, text}}, err
}

// fillNull gives a list to a key that has none.
func (d *document) fillNull(e entry, _ []*yaml.Node) ([]edit, error) {
	i := d.index(e.key)
	key, value := d.root.Content[i], d.root.Content[i+1]
	list, err := flowList(nil, e.value)
	if value.Value != "" {
		from := d.offset(value)
		return []edit{{from, from + len(value.Value), list}}, err
	}
	at, colon := d.colon(key)
	switch {
	case colon:
		return []edit{{at, at, " " + list}}, err
	case d.root.Style&yaml.FlowStyle != 0:
		return []edit{{at, at, ": " + list}}, err
	}
	return []edit{{at, at, d.eol + d.indent(key.Line) + ": " + list}}, err // after "? key"
}

// colon is the offset after the colon of a key, or, where a key in braces has none, after the key.
func (d *document) colon(key *yaml.Node) (int, bool) {
	end := d.skipProperties(d.offset(key))
	if s, ok := d.opaqueAt(end); ok {
		end = s.to
	} else {
		end += len(key.Value)
		if key.Kind == yaml.AliasNode {
			end++
		}
	}
	if at := d.skipBlank(min(end, len(d.src))); at < len(d.src) && d.src[at] == ':' {
		return at + 1, true
	}
	return min(end, len(d.src)), false
}

// blockText is a list entry on a line of its own.
func blockText(s string) string {
	if s == agentPackage {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
