package cloudinit

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxWritten bounds the nodes that are written out for an alias, since nested aliases multiply.
const maxWritten = 10_000

var errTooLarge = errors.New("too many nodes to write out")

// flowList is a list in brackets on one line: the nodes as PyYAML reads them, then texts.
func flowList(nodes []*yaml.Node, texts ...string) (string, error) {
	w := flowWriter{budget: maxWritten}
	for _, n := range nodes {
		w.separate()
		w.write(n)
	}
	for _, s := range texts {
		w.separate()
		w.out.WriteString(jsonText(s))
	}
	if w.budget < 0 {
		return "", errTooLarge
	}
	return "[" + w.out.String() + "]", nil
}

// jsonText is s in double quotes, read alike by JSON and YAML.
func jsonText(s string) string { return strconv.QuoteToASCII(s) }

type flowWriter struct {
	out    strings.Builder
	budget int
}

func (w *flowWriter) separate() {
	if w.out.Len() > 0 {
		w.out.WriteString(", ")
	}
}

func (w *flowWriter) write(n *yaml.Node) {
	w.budget--
	if w.budget < 0 {
		return
	}
	n = target(n)
	tag := pyTag(n)
	tagged := n.Style&yaml.TaggedStyle != 0 && tag != tagStr
	if tagged {
		w.out.WriteString(tag + " ")
	}
	switch {
	case n.Kind == yaml.MappingNode:
		w.collection("{", "}", n.Content, 2)
	case n.Kind == yaml.SequenceNode:
		w.collection("[", "]", n.Content, 1)
	case tag == tagStr || tagged:
		w.out.WriteString(jsonText(n.Value))
	case tag == tagNull:
		w.out.WriteString("null")
	default:
		w.out.WriteString(n.Value)
	}
}

// collection writes children in groups: one node of a list, key and value of a mapping.
func (w *flowWriter) collection(open, end string, children []*yaml.Node, group int) {
	w.out.WriteString(open)
	for i, c := range children {
		switch {
		case i == 0:
		case i%group == 0:
			w.out.WriteString(", ")
		default:
			w.out.WriteString(": ")
		}
		w.write(c)
	}
	w.out.WriteString(end)
}
