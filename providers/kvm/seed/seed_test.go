package seed_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/kdomanski/iso9660"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers/kvm/seed"
)

// files reads an image back: label, and names with contents. The bytes of two images differ by their time stamps.
func files(t *testing.T, image []byte) (string, map[string]string) {
	t.Helper()
	img, err := iso9660.OpenImage(bytes.NewReader(image))
	require.NoError(t, err)
	label, err := img.Label()
	require.NoError(t, err)
	root, err := img.RootDir()
	require.NoError(t, err)
	children, err := root.GetChildren()
	require.NoError(t, err)
	out := map[string]string{}
	for _, f := range children {
		content, err := io.ReadAll(f.Reader())
		require.NoError(t, err)
		out[f.Name()] = string(content)
	}
	return strings.TrimRight(label, " \x00"), out
}

func TestWrite(t *testing.T) {
	big := strings.Repeat("#cloud-config\n", 40_000)
	for name, tc := range map[string]struct {
		docs   seed.Documents
		want   map[string]string
		reason string
	}{
		"nothing given": {seed.Documents{}, map[string]string{"user-data": "", "meta-data": ""}, "cloud-init takes a seed without either for none at all"},
		"all": {
			seed.Documents{UserData: []byte("#cloud-config\n"), MetaData: []byte("{}"), VendorData: []byte("v"), NetworkConfig: []byte("n")},
			map[string]string{"user-data": "#cloud-config\n", "meta-data": "{}", "vendor-data": "v", "network-config": "n"},
			"names keep their dash",
		},
		"binary":   {seed.Documents{UserData: []byte("\x1f\x8b\x00\xff")}, map[string]string{"user-data": "\x1f\x8b\x00\xff", "meta-data": ""}, "byte for byte"},
		"half MiB": {seed.Documents{UserData: []byte(big)}, map[string]string{"user-data": big, "meta-data": ""}, "many sectors"},
	} {
		t.Run(name, func(t *testing.T) {
			image, err := seed.Write(tc.docs)
			require.NoError(t, err)
			label, got := files(t, image)
			assert.Equal(t, "cidata", label)
			assert.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestWriteLeavesNoSecretBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	_, err := seed.Write(seed.Documents{UserData: []byte("password")})
	require.NoError(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWriteSaysWhenItCannotStage(t *testing.T) {
	t.Setenv("TMPDIR", "/does/not/exist")
	_, err := seed.Write(seed.Documents{})
	require.ErrorContains(t, err, "stage the seed")
}
