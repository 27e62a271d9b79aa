package definition_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/definition"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got+"\n"), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test -update once")
	assert.Equal(t, string(want), got+"\n")
}

func domain() definition.Domain {
	return definition.Domain{
		Name: "pxy-fb0a76ea-06e3b89d-1fc5-5b66-a34c-09f9e26fdce3", UUID: "06e3b89d-1fc5-5b66-a34c-09f9e26fdce3", MAC: "02:0e:b2:2e:9f:bb",
		Title:     `Proxy edge/squid-1`,
		Metadata:  `<machine xmlns="https://proxyard.dev/xmlns/machine/v1" version="1"></machine>`,
		Resources: providers.Resources{CPUs: 2, MemoryBytes: 512 << 20, DiskBytes: 8 << 30},
		Firmware:  providers.FirmwareBIOS, VirtType: providers.VirtTypeQEMU, Network: providers.Network{Name: "default"},
		RootPath: "/var/lib/libvirt/images/root.qcow2", SeedPath: "/var/lib/libvirt/images/seed.iso", ConsolePath: "/var/lib/libvirt/images/console.log",
	}
}

func TestDomainXML(t *testing.T) {
	for name, change := range map[string]func(*definition.Domain){
		"qemu-bios-network": func(*definition.Domain) {},
		"kvm-uefi-bridge": func(d *definition.Domain) {
			d.VirtType, d.Firmware, d.Network = providers.VirtTypeKVM, providers.FirmwareUEFI, providers.Network{Bridge: "br0"}
		},
		"kvm-secureboot": func(d *definition.Domain) {
			d.VirtType, d.Firmware = providers.VirtTypeKVM, providers.FirmwareUEFISecureBoot
		},
		"no-agent":             func(d *definition.Domain) { d.NoGuestAgent = true },
		"title-needs-escaping": func(d *definition.Domain) { d.Title = `Proxy <&">` },
	} {
		t.Run(name, func(t *testing.T) {
			d := domain()
			change(&d)
			got, err := d.XML()
			require.NoError(t, err)
			golden(t, "domain-"+name+".xml", got)
		})
	}
}

func TestDomainNeverHas(t *testing.T) {
	got, err := domain().XML()
	require.NoError(t, err)
	for what, why := range map[string]string{
		"sata":            "Debian's cloud kernel has no AHCI: the seed would not exist for the guest",
		"ide":             "q35 has none",
		"<emulator>":      "paths differ between distributions",
		"type=\"volume\"": "AppArmor denies it",
		"pc-q35-":         "versioned machine types vanish with host upgrades",
	} {
		assert.NotContains(t, got, what, why)
	}
}

func TestVolumeXML(t *testing.T) {
	overlay, err := definition.Overlay{Name: "o", CapacityBytes: 8 << 30, BasePath: "/pool/base", BaseFormat: definition.FormatQCOW2}.XML()
	require.NoError(t, err)
	golden(t, "volume-overlay.xml", overlay)
	raw, err := definition.RawVolume("s", 47104)
	require.NoError(t, err)
	golden(t, "volume-raw.xml", raw)
}

func TestParseVolume(t *testing.T) {
	got, err := definition.ParseVolume(`<volume type='file'><name>o</name><capacity unit='bytes'>8589934592</capacity><allocation unit='bytes'>200704</allocation>
		<physical unit='bytes'>196616</physical><target><path>/pool/o</path><format type='qcow2'/></target>
		<backingStore><path>/pool/base</path><format type='raw'/></backingStore></volume>`)
	require.NoError(t, err)
	assert.Equal(t, definition.Volume{CapacityBytes: 8 << 30, PhysicalBytes: 196616, Format: "qcow2", BackingPath: "/pool/base", BackingFormat: "raw"}, got)
	_, err = definition.ParseVolume("not xml")
	require.Error(t, err)
}
