package cloudinit_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/pkg/cloudinit"
)

const command = `(s=$?; set +e; systemctl enable qemu-guest-agent; systemctl start --no-block qemu-guest-agent; ` +
	`rc-update add qemu-guest-agent; rc-service qemu-guest-agent start; exit $s) </dev/null >/dev/null 2>&1`

const mimeDocument = "Content-Type: multipart/mixed; boundary=\"==B==\"\nMIME-Version: 1.0\n\n--==B==\n" +
	"Content-Type: text/cloud-config\n\n#cloud-config\npackages: [theirs]\n--==B==--\n"

func zip(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

func utf16le(s string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

type kindCase struct {
	name, data string
	kind       cloudinit.Kind
}

func kinds() []kindCase {
	return []kindCase{
		{"cloud-config", "#cloud-config\na: 1\n", cloudinit.CloudConfig},
		{"leading lines", "\n\n#cloud-config\na: 1\n", cloudinit.CloudConfig},
		{"leading spaces", "   #cloud-config\na: 1\n", cloudinit.CloudConfig},
		{"any case", "#CLOUD-Config\na: 1\n", cloudinit.CloudConfig},
		{"text behind", "#cloud-configfoo\na: 1\n", cloudinit.CloudConfig},
		{"CRLF", "#cloud-config\r\na: 1\r\n", cloudinit.CloudConfig},
		{"word of MIME inside", "#cloud-config\na: |\n  MIME-Version: 1.0\n", cloudinit.CloudConfig},
		{"script", "#!/bin/sh\necho\n", cloudinit.Script},
		{"include", "#include\nhttp://x/\n", cloudinit.Include},
		{"include once", "#include-once\nhttp://x/\n", cloudinit.IncludeOnce},
		{"jinja", "## template: jinja\n#cloud-config\na: {{ v1.x }}\n", cloudinit.JinjaTemplate},
		{"jinja, any case", "## Template: Jinja\n#cloud-config\n", cloudinit.JinjaTemplate},
		{"jinja, wrong spaces", "##template:jinja\n#cloud-config\n", cloudinit.Unrecognised},
		{"boothook", "#cloud-boothook\n#!/bin/sh\n", cloudinit.Boothook},
		{"archive", "#cloud-config-archive\n- |\n  #!/bin/sh\n", cloudinit.Archive},
		{"part handler", "#part-handler\n", cloudinit.PartHandler},
		{"JSON patch", "#cloud-config-jsonp\n[]\n", cloudinit.JSONP},
		{"MIME", mimeDocument, cloudinit.MIME},
		{"MIME from a mailbox", "From nobody Fri Jan 11 07:00:00 1980\n" + mimeDocument, cloudinit.MIME},
		{"MIME after a blank line", "\n" + mimeDocument, cloudinit.Unrecognised},
		{"gzip", zip("#cloud-config\n"), cloudinit.Gzip},
		{"nothing", "", cloudinit.Empty},
		{"white space", " \n\t\n", cloudinit.Empty},
		{"byte order mark", "\xef\xbb\xbf#cloud-config\na: 1\n", cloudinit.Unrecognised},
		{"UTF-16", utf16le("#cloud-config\na: 1\n"), cloudinit.Unrecognised},
		{"no header", "a: 1\n", cloudinit.Unrecognised},
		{"space in the header", "# cloud-config\na: 1\n", cloudinit.Unrecognised},
		{"comment first", "# mine\n#cloud-config\na: 1\n", cloudinit.Unrecognised},
		{"document start first", "---\n#cloud-config\na: 1\n", cloudinit.Unrecognised},
		{"base64", base64.StdEncoding.EncodeToString([]byte("#cloud-config\na: 1\n")), cloudinit.Unrecognised},
	}
}

func TestClassify(t *testing.T) {
	for _, c := range kinds() {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.kind, cloudinit.Classify([]byte(c.data)))
		})
	}
}

type badCase struct {
	name, data string
	line       int
	says       string
	// pyyaml: PyYAML itself refuses the document.
	pyyaml bool
}

func bad() []badCase {
	const h = "#cloud-config\n"
	return []badCase{
		{"white space only", " \n", 1, "white space", false},
		{"byte order mark", "\xef\xbb\xbf#cloud-config\na: 1\n", 1, "byte order mark", false},
		{"UTF-16", utf16le(h), 1, "UTF-16", false},
		{"UTF-16 without mark", utf16le(h)[2:], 1, "UTF-16", false},
		{"no header", "packages: [a]\n", 1, "#cloud-config", false},
		{"space in the header", "# cloud-config\na: 1\n", 1, "space after #", false},
		{"comment first", "# mine\n#cloud-config\na: 1\n", 2, "first line", false},
		{"document start first", "---\n#cloud-config\na: 1\n", 2, "first line", false},
		{"jinja, wrong spaces", "##template:jinja\n#cloud-config\n", 1, "## template: jinja", false},
		{"base64", base64.StdEncoding.EncodeToString([]byte(h + "a: 1\n")), 1, "base64", false},
		{"base64 of gzip", base64.StdEncoding.EncodeToString([]byte(zip(h))), 1, "base64", false},
		{"MIME after a blank line", "\n" + mimeDocument, 1, "MIME", false},
		{"gzip of nothing known", zip("hello"), 0, "gzip", false},
		{"damaged gzip", zip(h)[:12], 0, "gzip", false},
		{"header indented", "  #cloud-config\na: 1\n", 1, "indented", false},
		{"latin-1", h + "a: \xe9\n", 2, "UTF-8", false},
		{"script in latin-1", "#!/bin/sh\necho \xe9\n", 2, "UTF-8", false},
		{"control character", h + "a: \"\x1b[0m\"\n", 2, "U+001B", true},
		{"tab as indentation", h + "runcmd:\n\t- a\n", 3, "tab", true},
		{"tab as indentation later", h + "a:\n  b: 1\n\tc: 2\n", 4, "tab", true},
		{"tab between tokens", h + "a:\tb\n", 2, "tab", true},
		{"tab at the end of a line", h + "a: b\t\n", 2, "tab", true},
		{"tab before a comment", h + "a: b\t# c\n", 2, "tab", true},
		{"second document", h + "a: 1\n---\nb: 1\n", 3, "second", true},
		{"second document, empty", h + "a: 1\n---\n", 3, "second", true},
		{"text after the end", h + "a: 1\n...\nb: 2\n", 4, "second", true},
		{"unknown tag", h + "a: 1\nb: !foo x\n", 3, "tag", true},
		{"python tag", h + "b: !!python/tuple [1, 2]\n", 2, "tag", true},
		{"tag that does not fit", h + "b: !!int x\n", 2, "tag", true},
		{"bare equals sign", h + "a: =\n", 2, "quotes", true},
		{"bare merge sign", h + "a: <<\n", 2, "quotes", true},
		{"merge of text", h + "<<: x\n", 2, "merge", true},
		{"date that is none", h + "a: 2024-02-30\n", 2, "quotes", true},
		{"number that is none", h + "a: 0x_\n", 2, "quotes", true},
		{"binary that is none", h + "a: !!binary |\n  é===\n", 2, "tag", true},
		{"comment right behind a block", h + "a: |# x\nb: 1\n", 2, "follows |", true},
		{"colon before a bracket", h + "packages: [a, b:]\n", 2, "colon", false},
		{"root set", h + "!!set {a, b}\n", 2, "mapping", false},
		{"template unquoted", h + "a: {{ v1.x }}\n", 2, "template", true},
		{"list as a key", h + "[a]: b\n", 2, "key", true},
		{"anchor twice", h + "a: &x 1\nb: &x 2\n", 3, "anchor", true},
		{"unknown anchor", h + "a: *x\n", 0, "anchor", true},
		{"syntax", h + "a: [b\nc: d\n", 0, "syntax", true},
		{"syntax, indentation", h + "a: b\n  c: d\n", 3, "syntax", true},
		{"root list", h + "- a\n", 2, "mapping", false},
		{"root text", h + "hello\n", 2, "mapping", false},
		{"root null", h + "~\n", 2, "mapping", false},
		{"packages as text", h + "packages: squid\n", 2, "list", false},
		{"packages as mapping", h + "packages:\n  apt: [a]\n", 3, "list", false},
		{"runcmd as text", h + "runcmd: |\n  a\n", 2, "list", false},
		{"runcmd as text by alias", h + "a: &x y\nruncmd: *x\n", 2, "list", false},
		{"packages as text by merge", h + "<<: {packages: a}\n", 2, "list", false},
		{"key twice", h + "runcmd: [a]\npackages: [b]\nruncmd: [c]\n", 4, "line 2", false},
		{"key twice, quoted", h + "runcmd: [a]\n\"runcmd\": [c]\n", 3, "line 2", false},
	}
}

func TestPrepareRefuses(t *testing.T) {
	for _, c := range bad() {
		t.Run(c.name, func(t *testing.T) {
			for _, mode := range []cloudinit.AgentMode{cloudinit.AgentInstall, cloudinit.AgentNone} {
				_, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(c.data)}, mode)
				var fault *cloudinit.Error
				require.ErrorAs(t, err, &fault)
				assert.Equal(t, "userData", fault.Field)
				assert.Contains(t, fault.Msg, c.says)
				if c.line > 0 {
					assert.Equal(t, c.line, fault.Line, fault.Msg)
				}
			}
		})
	}
}

func TestPrepareIsIdempotent(t *testing.T) {
	for name, doc := range good() {
		t.Run(name, func(t *testing.T) {
			once, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(doc)}, cloudinit.AgentInstall)
			require.NoError(t, err)
			twice, err := cloudinit.Prepare(once, cloudinit.AgentInstall)
			require.NoError(t, err)
			assert.Equal(t, string(once.UserData), string(twice.UserData))
			assert.Nil(t, once.VendorData)
			none, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(doc)}, cloudinit.AgentNone)
			require.NoError(t, err)
			assert.Equal(t, doc, string(none.UserData))
		})
	}
}
