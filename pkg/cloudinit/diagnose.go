package cloudinit

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"
)

// diagnose says why cloud-init would not recognise data.
func diagnose(field string, data []byte) error {
	fault := func(line int, msg string) error { return &Error{Field: field, Line: line, Msg: msg} }
	if err := checkMarks(field, data); err != nil {
		return err
	}
	first := beginning(data)
	switch {
	case isBase64(data):
		return fault(1, "base64 is not decoded by cloud-init: give the decoded text")
	case regexp.MustCompile(`^#+\s*template\s*:\s*jinja`).MatchString(first):
		return fault(1, `the jinja header must read exactly "## template: jinja": correct its spaces`)
	case regexp.MustCompile(`^#\s+cloud-config`).MatchString(first):
		return fault(1, `the header must read exactly "#cloud-config": remove the space after #`)
	case strings.HasPrefix(first, "content-type:") || strings.HasPrefix(first, "mime-version:"):
		return fault(1, `a MIME document must begin with its headers, among them "MIME-Version: 1.0": add it, and remove blank lines before the headers`)
	case headerLine(data) > 0:
		return fault(headerLine(data), "the #cloud-config header must be the first line: move it above the comments, --- and blank text before it")
	}
	return fault(1, "cloud-init ignores a document that begins like this: make #cloud-config the first line, or #! for a script")
}

// checkMarks refuses byte order marks and UTF-16.
func checkMarks(field string, data []byte) error {
	fault := func(msg string) error { return &Error{Field: field, Line: 1, Msg: msg} }
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return fault("begins with a byte order mark, which hides the header from cloud-init: save the document as UTF-8 without BOM")
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}),
		len(data) > 3 && (data[0] == 0) != (data[1] == 0):
		return fault("is UTF-16, which cloud-init does not read: save the document as UTF-8 without BOM")
	}
	return nil
}

// headerLine is the line on which a cloud-config header stands, 0 when nowhere.
func headerLine(data []byte) int {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(line)), []byte("#cloud-config")) {
			return i + 1
		}
	}
	return 0
}

// isBase64 reports whether data is the base64 form of something that cloud-init would know.
func isBase64(data []byte) bool {
	text := strings.Join(strings.Fields(string(data)), "")
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(plain) == 0 {
		return false
	}
	k := Classify(plain)
	return k != Unrecognised && k != Empty
}
