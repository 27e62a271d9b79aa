package cloudinit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/pkg/cloudinit"
)

// Passwords that lack their quotes read as tags, anchors and aliases; what is said of them must not hold them.
func TestErrorsDoNotQuoteValues(t *testing.T) {
	for name, doc := range map[string]string{
		"tag":           "#cloud-config\npassword: !hunter2\n",
		"alias":         "#cloud-config\npassword: *hunter2\n",
		"anchor twice":  "#cloud-config\na: &hunter2 x\nb: &hunter2 y\n",
		"percent":       "#cloud-config\npassword: %hunter2\n",
		"at":            "#cloud-config\npassword: @hunter2\n",
		"back tick":     "#cloud-config\npassword: `hunter2\n",
		"colon":         "#cloud-config\npassword: a: hunter2\n",
		"open quote":    "#cloud-config\npassword: \"hunter2\n",
		"bad escape":    "#cloud-config\npassword: \"\\hunter2\"\n",
		"bracket":       "#cloud-config\npassword: [hunter2\n",
		"bad timestamp": "#cloud-config\npassword: 2024-02-30\nother: !hunter2 x\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(doc)}, cloudinit.AgentInstall)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}
