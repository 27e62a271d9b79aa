package cloudinit

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// appendBlock writes the entry on a line after the last item.
func (d *document) appendBlock(e entry, _ []*yaml.Node) ([]edit, error) {
	i := d.index(e.key)
	list := d.root.Content[i+1]
	if len(list.Content) == 0 {
		return nil, nil
	}
	text := d.indent(d.firstItem(list)) + "- " + blockText(e.value)
	at := d.valueEnd(i)
	if d.starts[d.lineAt(at)-1] == at {
		text += d.eol
	} else {
		text = d.eol + text
	}
	edits, err := d.freeAnchor(list)
	return append(edits, edit{at, at, text}), err
}

// firstItem is the line of the first "-": that of the list itself unless an anchor or a tag stands before it.
func (d *document) firstItem(list *yaml.Node) int {
	return d.lineAt(d.skipProperties(d.offset(list)))
}

// valueEnd is the start of the line after the last line of the value of the root's key i: comments and blank lines after it
// are left to the next key. At the end of a document without a final line break it is the end.
func (d *document) valueEnd(i int) int {
	at := d.end()
	if i+2 < len(d.root.Content) {
		at = d.starts[d.root.Content[i+2].Line-1]
	}
	for at > 0 {
		prev := d.lineAt(at - 1)
		start := d.starts[prev-1]
		text := bytes.TrimLeft(d.line(prev), " \t\r\n\u0085\u2028\u2029")
		if _, inside := d.opaqueAt(start); inside || (len(text) > 0 && text[0] != '#') {
			return at
		}
		at = start
	}
	return at
}

// end is where the content of the document ends: before the line of an end marker, else at the end of the text.
func (d *document) end() int {
	for n := len(d.starts); n > 1; n-- {
		start := d.starts[n-1]
		if _, inside := d.opaqueAt(start); inside {
			break
		}
		if text := d.line(n); bytes.HasPrefix(text, []byte("...")) && (len(text) == 3 || strings.ContainsRune(" \r\n", rune(text[3]))) {
			return start
		}
	}
	return len(d.src)
}

// appendFlow writes the entry before the closing bracket, after the last item and its comma.
func (d *document) appendFlow(e entry, before []*yaml.Node) ([]edit, error) {
	list := d.root.Content[d.index(e.key)+1]
	_, last, _ := d.brackets(list)
	text := jsonText(e.value)
	switch {
	case len(before) == 0:
	case d.src[last-1] == ',':
		text = " " + text
	default:
		text = ", " + text
	}
	edits, err := d.freeAnchor(list)
	return append(edits, edit{last, last, text}), err
}

// brackets are the offsets of a flow list's opening bracket, of the end of its last token, and after its closing bracket.
func (d *document) brackets(list *yaml.Node) (open, last, end int) {
	open = d.skipProperties(d.offset(list))
	depth := 0
	for i := open; i < len(d.src); i++ {
		if s, ok := d.opaqueAt(i); ok {
			i, last = s.to-1, s.to
			continue
		}
		switch c := d.src[i]; {
		case d.isComment(i), c == '#' && i == last && strings.IndexByte(`,[]{}'"`, d.src[i-1]) >= 0:
			i = d.lineEnd(i) - 1
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
			if depth == 0 {
				return open, last, i + 1
			}
		case c == ' ' || breakAt(d.src, i) > 0:
			i += max(breakAt(d.src, i), 1) - 1
			continue
		}
		last = i + 1
	}
	return open, last, len(d.src)
}

// replaceFlow and replaceBlock write the whole list anew, on one line.
func (d *document) replaceFlow(e entry, before []*yaml.Node) ([]edit, error) {
	open, _, end := d.brackets(d.root.Content[d.index(e.key)+1])
	text, err := flowList(before, e.value)
	return []edit{{open, end, text}}, err
}

func (d *document) replaceBlock(e entry, before []*yaml.Node) ([]edit, error) {
	i := d.index(e.key)
	from, _ := d.colon(d.root.Content[i])
	text, err := flowList(before, e.value)
	return []edit{{from, d.valueEnd(i), " " + text + d.eol}}, err
}

// replaceAlias writes the list that the alias stands for.
func (d *document) replaceAlias(e entry, before []*yaml.Node) ([]edit, error) {
	alias := d.root.Content[d.index(e.key)+1]
	from := d.offset(alias)
	text, err := flowList(before, e.value)
	return []edit{{from, from + len("*") + len(alias.Value), text}}, err
}

// freeAnchor sees to it that other places which use the list by its anchor keep the list as it was: the anchor moves to the
// first of them, with the list written out.
func (d *document) freeAnchor(list *yaml.Node) ([]edit, error) {
	var alias *yaml.Node
	d.walk(func(n *yaml.Node) {
		if n.Kind == yaml.AliasNode && n.Alias == list && alias == nil {
			alias = n
		}
	})
	if alias == nil {
		return nil, nil
	}
	text, err := flowList(list.Content)
	mark := "&" + list.Anchor
	from := bytes.Index(d.src[d.offset(list):], []byte(mark)) + d.offset(list)
	at := d.offset(alias)
	return []edit{
		{from, d.skipSpaces(from + len(mark)), ""},
		{at, at + len("*") + len(alias.Value), mark + " " + text},
	}, err
}

func (d *document) skipSpaces(i int) int {
	for i < len(d.src) && d.src[i] == ' ' {
		i++
	}
	return i
}
