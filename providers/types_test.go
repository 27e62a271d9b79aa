package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/proxyard/proxyard/providers"
)

func TestTagMatches(t *testing.T) {
	tag := providers.Tag{ClusterID: "c", Namespace: "ns", Name: "px", UID: "u"}
	tests := map[string]struct {
		reason string
		query  providers.Tag
		want   bool
	}{
		"itself":            {"every field equal", tag, true},
		"nothing":           {"empty fields match everything", providers.Tag{}, true},
		"cluster":           {"one field", providers.Tag{ClusterID: "c"}, true},
		"namespace":         {"one field", providers.Tag{Namespace: "ns"}, true},
		"name":              {"one field", providers.Tag{Name: "px"}, true},
		"UID":               {"one field", providers.Tag{UID: "u"}, true},
		"other cluster":     {"foreign", providers.Tag{ClusterID: "d", UID: "u"}, false},
		"other namespace":   {"another owner", providers.Tag{ClusterID: "c", Namespace: "xx"}, false},
		"other name":        {"another owner", providers.Tag{ClusterID: "c", Name: "xx"}, false},
		"other UID":         {"B3: a recreated owner", providers.Tag{ClusterID: "c", Namespace: "ns", Name: "px", UID: "v"}, false},
		"prefix of a field": {"no patterns", providers.Tag{Name: "p"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, tag.Matches(tc.query), tc.reason) })
	}
	assert.False(t, providers.Tag{}.Matches(providers.Tag{ClusterID: "c"}), "an untagged machine is nobody's")
}
