package cloudinit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document is one YAML document: its text, and the nodes that say where in the text something stands.
type document struct {
	field string
	src   []byte
	// root is nil when the document is empty.
	root *yaml.Node
	// starts holds the offset of each line.
	starts []int
	// opaque are the quoted and the block scalars, in which nothing else has a meaning; ordered.
	opaque []span
	// eol is the line break that the document uses.
	eol string
}

// span is a range of offsets, without its end.
type span struct{ from, to int }

// parseConfig reads a cloud-config and refuses what cloud-init would ignore.
func parseConfig(field string, data []byte) (*document, error) {
	before, _, _ := bytes.Cut(bytes.ToLower(data), []byte("#cloud-config"))
	if i := bytes.LastIndexAny(before, "\r\n"); i+1 < len(before) {
		return nil, &Error{Field: field, Line: 1 + bytes.Count(before, []byte("\n")), Msg: "the #cloud-config header is indented: move it to the start of its line"}
	}
	d, err := parse(field, data)
	if err != nil {
		return nil, err
	}
	if err := d.checkConfig(); err != nil {
		return nil, err
	}
	return d, nil
}

// parse reads exactly one YAML document as PyYAML does.
func parse(field string, data []byte) (*document, error) {
	d := &document{field: field, src: data, eol: "\n"}
	if err := d.checkCharacters(); err != nil {
		return nil, err
	}
	d.indexLines()
	if err := d.decode(); err != nil {
		return nil, err
	}
	if err := d.findOpaque(); err != nil {
		return nil, err
	}
	if err := d.checkTabs(); err != nil {
		return nil, err
	}
	if err := d.checkNodes(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *document) fault(line int, format string, args ...any) error {
	return &Error{Field: d.field, Line: line, Msg: fmt.Sprintf(format, args...)}
}

// decode fills root. The library may panic on damaged input; that is a fault of the document, not of the process.
func (d *document) decode() (err error) {
	defer func() {
		if recover() != nil {
			err = d.fault(0, "not YAML: check it with a YAML parser")
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(d.src))
	var first, second yaml.Node
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return d.syntaxFault(err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		line := second.Line
		if line == 0 {
			line, _ = position(err)
		}
		return d.fault(line, "a second YAML document begins: cloud-init then ignores both; keep only one")
	}
	if root := first.Content[0]; !isImplicitNull(root) {
		d.root = root
	}
	return nil
}

func isImplicitNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0 && n.Anchor == ""
}

// syntaxFault turns "yaml: line 3: did not find expected key" into an Error. The library's text quotes the document in one case only,
// an alias without anchor, which may be a password that begins with "*" and lacks its quotes.
func (d *document) syntaxFault(err error) error {
	line, msg := position(err)
	if strings.HasPrefix(msg, "unknown anchor") {
		return d.fault(line, "an alias (a word that begins with *) has no anchor before it: add the anchor, or quote the text if it is no alias")
	}
	if line > 0 {
		for l := line; l <= min(line+1, len(d.starts)); l++ {
			if text := d.line(l); bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t') {
				return d.fault(l, "a tab is used as indentation: use spaces")
			}
		}
	}
	return d.fault(line, "not YAML (%s): correct the syntax there or just around it", msg)
}

// position splits the library's message into the line, 0 for none, and the text.
func position(err error) (int, string) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	m := regexp.MustCompile(`(?s)^line (\d+): (.*)$`).FindStringSubmatch(msg)
	if m == nil {
		return 0, msg
	}
	line, _ := strconv.Atoi(m[1])
	if strings.HasPrefix(m[2], "did not find expected") {
		line++ // the library counts the lines of its parser's errors from 0, those of its scanner's from 1
	}
	return line, m[2]
}

// checkCharacters refuses what PyYAML's reader refuses.
func (d *document) checkCharacters() error {
	if err := checkMarks(d.field, d.src); err != nil {
		return err
	}
	if err := checkText(d.field, d.src); err != nil {
		return err
	}
	for i, r := range string(d.src) {
		if !printable(r) {
			return d.fault(1+bytes.Count(d.src[:i], []byte("\n")), "the character U+%04X is not allowed in YAML: remove it, or write it as an escape in double quotes", r)
		}
	}
	return nil
}

// printable is YAML 1.1's c-printable, without the byte order mark.
func printable(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || (r >= ' ' && r <= '~') || r == 0x85 ||
		(r >= 0xa0 && r <= 0xd7ff) || (r >= 0xe000 && r <= 0xfffd && r != 0xfeff) || r >= 0x10000
}

// breakAt is the length of the line break at offset i, 0 for none. YAML 1.1 has five kinds.
func breakAt(src []byte, i int) int {
	switch {
	case bytes.HasPrefix(src[i:], []byte("\r\n")):
		return 2
	case i < len(src) && (src[i] == '\n' || src[i] == '\r'):
		return 1
	case bytes.HasPrefix(src[i:], []byte("\u0085")):
		return 2
	case bytes.HasPrefix(src[i:], []byte("\u2028")), bytes.HasPrefix(src[i:], []byte("\u2029")):
		return 3
	}
	return 0
}

func (d *document) indexLines() {
	d.starts = []int{0}
	for i := 0; i < len(d.src); {
		n := breakAt(d.src, i)
		if n == 0 {
			i++
			continue
		}
		if len(d.starts) == 1 {
			d.eol = string(d.src[i : i+n])
		}
		i += n
		d.starts = append(d.starts, i)
	}
}

// line is the text of line n (from 1) with its line break.
func (d *document) line(n int) []byte {
	if n < len(d.starts) {
		return d.src[d.starts[n-1]:d.starts[n]]
	}
	return d.src[d.starts[n-1]:]
}

// lineAt is the number of the line that offset i stands in.
func (d *document) lineAt(i int) int {
	lo, hi := 1, len(d.starts)
	for lo < hi {
		if mid := (lo + hi + 1) / 2; d.starts[mid-1] <= i {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// offset is where node n begins; its column counts characters.
func (d *document) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(d.starts) {
		return len(d.src)
	}
	i := d.starts[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(d.src[i:])
		i += size
	}
	return i
}
