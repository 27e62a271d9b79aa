package cloudinit

import (
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The tags of PyYAML's safe loader, in short form.
const (
	tagStr       = "!!str"
	tagNull      = "!!null"
	tagBool      = "!!bool"
	tagInt       = "!!int"
	tagFloat     = "!!float"
	tagTimestamp = "!!timestamp"
	tagMerge     = "!!merge"
	tagValue     = "!!value"
	tagMap       = "!!map"
	tagSeq       = "!!seq"
	tagBinary    = "!!binary"
	tagSet       = "!!set"
	tagOmap      = "!!omap"
	tagPairs     = "!!pairs"
)

// implicit are the patterns of yaml/resolver.py, by which PyYAML types a plain scalar.
//
//nolint:gochecknoglobals // compiled once: they are constants that Go cannot write as such
var implicit = []struct {
	tag     string
	pattern *regexp.Regexp
}{
	{tagBool, regexp.MustCompile(`^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)},
	{tagFloat, regexp.MustCompile(`^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)},
	{tagInt, regexp.MustCompile(`^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)},
	{tagMerge, regexp.MustCompile(`^<<$`)},
	{tagNull, regexp.MustCompile(`^(?:~|null|Null|NULL|)$`)},
	{tagTimestamp, timestamp},
	{tagValue, regexp.MustCompile(`^=$`)},
}

//nolint:gochecknoglobals // as above
var timestamp = regexp.MustCompile(`^(\d{4})-(\d{1,2})-(\d{1,2})(?:(?:[Tt]|[ \t]+)(\d{1,2}):(\d{2}):(\d{2})(?:\.\d*)?(?:[ \t]*(?:Z|[-+](\d{1,2})(?::(\d{2}))?))?)?$`)

// pyTag is the type that PyYAML gives a node.
func pyTag(n *yaml.Node) string {
	n = target(n)
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return n.ShortTag()
	case n.Kind == yaml.MappingNode:
		return tagMap
	case n.Kind == yaml.SequenceNode:
		return tagSeq
	case n.Style != 0 && n.Style != yaml.FlowStyle:
		return tagStr
	}
	for _, r := range implicit {
		if r.pattern.MatchString(n.Value) && (r.tag != tagTimestamp || isTimestamp(n.Value)) {
			return r.tag
		}
	}
	return tagStr
}

// isTimestamp narrows the pattern: a date without a time needs two digits each.
func isTimestamp(s string) bool {
	return len(s) == len("2006-01-02") || strings.ContainsAny(s, "Tt \t")
}

// maxDigits is where Python 3.11 refuses to read a decimal number.
const maxDigits = 4300

// constructible reports whether PyYAML can build the value of a scalar that has the given tag: where it cannot, cloud-init
// drops the whole document.
func constructible(tag, value string) bool {
	digits := strings.ReplaceAll(value, "_", "")
	switch tag {
	case tagStr, tagNull:
		return true
	case tagBool, tagInt, tagFloat, tagTimestamp:
		if pyTag(&yaml.Node{Kind: yaml.ScalarNode, Value: value}) != tag && !(tag == tagFloat && constructible(tagInt, value)) {
			return false
		}
		if tag == tagTimestamp {
			return validTime(value)
		}
		bare := strings.TrimLeft(digits, "+-")
		return bare != "0b" && bare != "0x" && len(digits) <= maxDigits
	case tagBinary:
		return validBase64(value)
	}
	return false
}

// validBase64 follows Python's lenient decoder: other characters are skipped, and the padding ends the text. Only ASCII gets there.
func validBase64(s string) bool {
	digits, pads := 0, 0
	for _, r := range s {
		switch {
		case r > '~':
			return false
		case r == '=':
			pads++
			if digits%4 >= 2 && digits%4+pads >= 4 {
				return true
			}
		case (r >= 'A' && r <= 'Z') || (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') || r == '+' || r == '/':
			digits++
			pads = 0
		}
	}
	return digits%4 == 0
}

func validTime(s string) bool {
	m := timestamp.FindStringSubmatch(s)
	if len(m) == 0 || m[1] == "0000" {
		return false
	}
	if _, err := time.Parse("2006-1-2", m[1]+"-"+m[2]+"-"+m[3]); err != nil {
		return false
	}
	if m[4] == "" {
		return true
	}
	_, err := time.Parse("15:4:5", m[4]+":"+m[5]+":"+m[6])
	return err == nil && (m[7] == "" || m[7] < "24" || len(m[7]) == 1)
}
