// Package seed writes the NoCloud seed that cloud-init reads at first boot: an ISO 9660 image labelled "cidata" with the
// files user-data and meta-data, and, where given, vendor-data and network-config. The kvm provider is its caller.
//
// The writer stamps the time of day into the image, so two seeds of the same documents differ: compare documents.
package seed

import (
	"bytes"
	"fmt"

	"github.com/kdomanski/iso9660"
)

// label is one of the two that cloud-init's NoCloud looks for ("cidata", "CIDATA").
const label = "cidata"

// Documents are the files of a seed. UserData and MetaData are always written, empty or not: without both cloud-init takes
// the seed for no seed at all. Nil means: no such file for the other two.
type Documents struct{ UserData, MetaData, VendorData, NetworkConfig []byte }

// Write returns the image.
//
// The library stages the files in a temporary folder (TMPDIR) while it works: where the root file system is read-only, mount
// one in memory.
func Write(d Documents) (image []byte, err error) {
	w, err := iso9660.NewWriter()
	if err != nil {
		return nil, fmt.Errorf("stage the seed: %w", err)
	}
	defer func() {
		// What was staged holds the user's secrets; leaving it behind is an error, not a nuisance.
		if cerr := w.Cleanup(); cerr != nil && err == nil {
			image, err = nil, fmt.Errorf("remove the staged seed: %w", cerr)
		}
	}()
	// The names are fixed: the library mangles others, follows ".." out of its folder and lets names collide.
	for _, f := range []struct {
		name    string
		content []byte
		always  bool
	}{
		{"user-data", d.UserData, true},
		{"meta-data", d.MetaData, true},
		{"vendor-data", d.VendorData, false},
		{"network-config", d.NetworkConfig, false},
	} {
		if f.content == nil && !f.always {
			continue
		}
		if err := w.AddFile(bytes.NewReader(f.content), f.name); err != nil {
			return nil, fmt.Errorf("stage %s: %w", f.name, err)
		}
	}
	var out bytes.Buffer
	if err := w.WriteTo(&out, label); err != nil {
		return nil, fmt.Errorf("write the seed: %w", err)
	}
	return out.Bytes(), nil
}
