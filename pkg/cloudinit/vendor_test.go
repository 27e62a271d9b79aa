package cloudinit_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/pkg/cloudinit"
)

const mark = "# proxyard: guest agent"

type vendorCase struct {
	user, vendor string
	// form is how the agent travels: "user" in the user-data, "lists" or "script" in the vendor-data.
	form   string
	reason string
}

// vendorCases are combinations of user-data and vendor-data; judge_test.go has cloud-init merge them.
func vendorCases() map[string]vendorCase {
	const (
		script   = "#!/bin/sh\necho user \xc3\xa9\n"
		ownLists = "#cloud-config\npackages: [v1, v2]\nruncmd:\n- [v, w]\n- echo v # really\nhostname: v\n"
		noLists  = "#cloud-config\nhostname: v\n"
		scriptV  = "#!/bin/sh\r\necho vendor --proxyard-\r\n\r\n"
		mimeV    = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=VV\n\n--VV\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho v\n--VV\n" +
			"Content-Type: text/cloud-config\n\n#cloud-config\nruncmd: [from-mime]\n--VV--\n"
		jinjaV   = "## template: jinja\n#cloud-config\nhostname: {{ v1.x }}\n"
		archiveV = "#cloud-config-archive\n- type: text/x-shellscript\n  content: |\n    #!/bin/sh\n    echo a\n- |\n  #cloud-config\n  packages: [arch]\n"
	)
	return map[string]vendorCase{
		"script":                         {script, "", "lists", "nothing can hide a list"},
		"boothook":                       {"#cloud-boothook\n#!/bin/sh\necho b\n", "", "lists", "nothing can hide a list"},
		"no user-data":                   {"", "", "lists", "nothing can hide a list"},
		"no user-data, own lists":        {"", ownLists, "lists", "the vendor's own lists grow"},
		"script, own lists":              {script, ownLists, "lists", "the vendor's own lists grow"},
		"script, no lists":               {script, noLists, "lists", "the vendor's cloud-config gets lists"},
		"script, agent there":            {script, "#cloud-config\npackages: [qemu-guest-agent]\nruncmd: [systemctl start qemu-guest-agent]\n", "nothing", "it is there already"},
		"script, script":                 {script, scriptV, "lists", "a part beside the vendor's script"},
		"script, boothook":               {script, "#cloud-boothook\n#!/bin/sh\necho b\n", "lists", "a part beside the vendor's"},
		"script, jinja":                  {script, jinjaV, "lists", "a part beside the vendor's"},
		"script, archive":                {script, archiveV, "lists", "a part beside what the archive holds"},
		"script, MIME":                   {script, mimeV, "lists", "the vendor's MIME nests"},
		"script, gzip of MIME":           {script, zip(mimeV), "lists", "cloud-init does not unpack MIME in a gzip part"},
		"script, gzip of lists":          {script, zip(ownLists), "lists", "a part that appends to the vendor's lists"},
		"script, MIME from a mailbox":    {script, "From x Fri Jan 11 07:00:00 1980\n" + mimeV, "lists", "the vendor's MIME nests"},
		"MIME":                           {mimeDocument, "", "script", "the user's part has packages of its own"},
		"MIME, own lists":                {mimeDocument, ownLists, "script", "the user's part has packages of its own"},
		"MIME, script":                   {mimeDocument, scriptV, "script", "two scripts"},
		"MIME, MIME":                     {mimeDocument, mimeV, "script", "nested MIME beside a script"},
		"gzip of a cloud-config":         {zip(ownLists), noLists, "script", "the zipped lists would hide ours"},
		"archive":                        {archiveV, "", "script", "the archive's lists would hide ours"},
		"JSON patch":                     {"#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/packages\", \"value\": [\"p\"]}]\n", "", "script", "the patch's lists would hide ours"},
		"jinja":                          {jinjaV, "", "script", "its lists, known only in the guest, would hide ours"},
		"cloud-config":                   {"#cloud-config\npackages: [u]\nruncmd: [u]\n", ownLists, "user", "the user's lists hide the vendor's before and after"},
		"cloud-config without lists":     {"#cloud-config\nhostname: u\n", ownLists, "user", "our new lists must not hide the vendor's"},
		"cloud-config with null lists":   {"#cloud-config\npackages:\nruncmd: ~\n", ownLists, "user", "null hides the vendor's lists already"},
		"cloud-config, agent in vendor":  {"#cloud-config\nhostname: u\n", "#cloud-config\npackages: [x, qemu-guest-agent]\n", "user", "the package comes from the vendor-data"},
		"cloud-config, vendor data off":  {"#cloud-config\nvendor_data: {enabled: false}\n", ownLists, "user", "the vendor's lists are not used and must not come in"},
		"cloud-config, vendor data on":   {"#cloud-config\nvendor_data: {enabled: true, prefix: [x]}\n", ownLists, "user", "the vendor's lists stay"},
		"cloud-config, vendor as script": {"#cloud-config\nhostname: u\n", scriptV, "user", "the vendor-data is passed on"},
	}
}

func TestPrepareVendorData(t *testing.T) {
	for name, c := range vendorCases() {
		t.Run(name, func(t *testing.T) {
			in := cloudinit.Documents{UserData: []byte(c.user), VendorData: []byte(c.vendor)}
			out, err := cloudinit.Prepare(in, cloudinit.AgentInstall)
			require.NoError(t, err)
			if c.form == "user" || c.form == "nothing" {
				assert.Equal(t, c.vendor, string(out.VendorData), c.reason)
			}
			if c.form != "user" {
				assert.Equal(t, c.user, string(out.UserData), "only a cloud-config is ever edited")
			}
			assert.Equal(t, c.form == "script", strings.Contains(string(out.VendorData), "apt-get"), c.reason)
			again, err := cloudinit.Prepare(out, cloudinit.AgentInstall)
			require.NoError(t, err)
			assert.Equal(t, out, again)
			for _, mode := range []cloudinit.AgentMode{cloudinit.AgentPreinstalled, cloudinit.AgentNone} {
				same, err := cloudinit.Prepare(in, mode)
				require.NoError(t, err)
				assert.Equal(t, in, same)
			}
		})
	}
}

func TestPrepareRefusesVendorData(t *testing.T) {
	for name, doc := range map[string]string{
		"not recognised": "packages: [a]\n",
		"not a list":     "#cloud-config\npackages: a\n",
		"tab":            "#cloud-config\nruncmd:\n\t- a\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte("#cloud-config\n"), VendorData: []byte(doc)}, cloudinit.AgentNone)
			var fault *cloudinit.Error
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, "vendorData", fault.Field)
		})
	}
}

// TestAgentCommand runs the command as cloud-init does, in a script of all commands, in a place where none of its programs is.
func TestAgentCommand(t *testing.T) {
	cases := map[string]struct {
		before string
		status int
		reason string
	}{
		"alone":                   {"", 0, "no program of ours is there, and yet nothing fails"},
		"after success":           {"true\n", 0, ""},
		"after failure":           {"(exit 7)\n", 7, "the user's failure must still be seen"},
		"after set -e":            {"set -e\n", 0, "our missing programs must not end the script"},
		"after set -eu":           {"set -eu\n", 0, "no unset variable"},
		"after set -e, last fail": {"set -e\nfalse && true\n", 1, "as it would have been without us"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", c.before+command+"\n")
			cmd.Env = []string{"PATH=/nowhere"}
			out, err := cmd.CombinedOutput()
			assert.Empty(t, string(out))
			if c.status == 0 {
				require.NoError(t, err, c.reason)
				return
			}
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.Equal(t, c.status, exit.ExitCode(), c.reason)
		})
	}
}

func TestBootstrapScriptSucceedsWithoutAnything(t *testing.T) {
	out, err := cloudinit.Prepare(cloudinit.Documents{UserData: []byte(mimeDocument)}, cloudinit.AgentInstall)
	require.NoError(t, err)
	assert.Contains(t, string(out.VendorData), mark)
	cmd := exec.Command("/bin/sh", "-e", "-c", string(out.VendorData))
	cmd.Env = []string{"PATH=/nowhere"}
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
}
