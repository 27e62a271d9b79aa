package cloudinit

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is what cloud-init takes a user-data or vendor-data for.
type Kind string

// The kinds. Unrecognised is ignored by cloud-init, Empty holds nothing to ignore.
const (
	Empty         Kind = "Empty"
	CloudConfig   Kind = "CloudConfig"
	Script        Kind = "Script"
	Include       Kind = "Include"
	IncludeOnce   Kind = "IncludeOnce"
	MIME          Kind = "MIME"
	Gzip          Kind = "Gzip"
	JinjaTemplate Kind = "JinjaTemplate"
	Boothook      Kind = "Boothook"
	Archive       Kind = "Archive"
	PartHandler   Kind = "PartHandler"
	JSONP         Kind = "JSONP"
	Unrecognised  Kind = "Unrecognised"
)

// prefix is how a document of a kind begins, in lower case, and the MIME type that cloud-init gives it.
type prefix struct {
	text     string
	kind     Kind
	mimeType string
}

// prefixes is the table of cloudinit/handlers/__init__.py, longest first as there: "#cloud-config" is also how an archive begins.
func prefixes() []prefix {
	return []prefix{
		{"#cloud-config-archive", Archive, "text/cloud-config-archive"},
		{"#cloud-config-jsonp", JSONP, "text/cloud-config-jsonp"},
		{"## template: jinja", JinjaTemplate, "text/jinja2"},
		{"#cloud-boothook", Boothook, "text/cloud-boothook"},
		{"#cloud-config", CloudConfig, "text/cloud-config"},
		{"#include-once", IncludeOnce, "text/x-include-once-url"},
		{"#part-handler", PartHandler, "text/part-handler"},
		{"#include", Include, "text/x-include-url"},
		{"#!", Script, "text/x-shellscript"},
	}
}

// mimeWindow is how far into a document cloud-init looks for the word that makes it MIME, in bytes.
const mimeWindow = 4096

// Classify says what cloud-init takes data for, by its first bytes alone: it does not say that the document is good.
func Classify(data []byte) Kind {
	switch {
	case isGzip(data):
		return Gzip
	case isMIME(data):
		return MIME
	case strings.TrimLeftFunc(string(data), isSpace) == "":
		return Empty
	}
	start := beginning(data)
	for _, p := range prefixes() {
		if strings.HasPrefix(start, p.text) {
			return p.kind
		}
	}
	return Unrecognised
}

// mimeType is the type of a part of kind k.
func mimeType(k Kind) string {
	for _, p := range prefixes() {
		if p.kind == k {
			return p.mimeType
		}
	}
	return "text/plain" // cloud-init then looks at the bytes itself
}

// beginning is the first line without leading white space, in lower case.
func beginning(data []byte) string {
	start := strings.TrimLeftFunc(string(data), isSpace)
	if i := strings.IndexAny(start, "\r\n"); i >= 0 {
		start = start[:i]
	}
	return strings.ToLower(start)
}

// isSpace is Python's str.isspace, which also counts the four information separators.
func isSpace(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) }

func isGzip(data []byte) bool { return bytes.HasPrefix(data, []byte{0x1f, 0x8b}) }

// isMIME follows user_data.convert_string: the word somewhere near the start, and then Python's e-mail parser, which takes
// the text for a message without headers (so not for MIME) unless its first line looks like a header.
func isMIME(data []byte) bool {
	window := data[:min(len(data), mimeWindow)]
	if !bytes.Contains(bytes.ToLower(window), []byte("mime-version:")) {
		return false
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if bytes.HasPrefix(first, []byte("From ")) || bytes.HasPrefix(first, []byte(" ")) || bytes.HasPrefix(first, []byte("\t")) {
		return true
	}
	name, _, found := bytes.Cut(first, []byte(":"))
	return found && !bytes.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' })
}

// maxUnzipped bounds what a compressed document may unfold to, in bytes: far above any real one, far below what hurts.
const maxUnzipped = 16 << 20

// gunzip answers the unfolded document, or nil when it cannot be unfolded within the bound.
func gunzip(data []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	out, err := io.ReadAll(io.LimitReader(r, maxUnzipped+1))
	if err != nil || len(out) > maxUnzipped {
		return nil
	}
	return out
}

func checkGzip(field string, data []byte) error {
	inner := gunzip(data)
	if inner == nil {
		return &Error{Field: field, Msg: "gzip data is damaged or unfolds to more than 16 MiB: compress it again, or give it uncompressed"}
	}
	switch Classify(inner) {
	case Unrecognised, Empty, Gzip:
		return &Error{Field: field, Msg: "the gzip data holds nothing that cloud-init knows: the text inside must begin with #cloud-config or #!"}
	default:
		return nil
	}
}

// checkText refuses bytes that make cloud-init drop or damage a text document.
func checkText(field string, data []byte) error {
	if utf8.Valid(data) {
		return nil
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			return &Error{Field: field, Line: i + 1, Msg: "not UTF-8: save the document as UTF-8, or encode binary parts as base64"}
		}
	}
	return &Error{Field: field, Msg: "not UTF-8: save the document as UTF-8"}
}
