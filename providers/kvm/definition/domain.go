// Package definition renders the XML documents that the kvm provider sends to libvirt: domains and volumes. Every function
// is pure; what it decides and why is written beside it, and golden files show the result.
package definition

import (
	"fmt"

	"libvirt.org/go/libvirtxml"

	"github.com/proxyard/proxyard/providers"
)

// Domain is what a machine's domain is made of. Paths are host paths as StorageVolGetPath returns them.
type Domain struct {
	Name, UUID, MAC string
	// Title is what virsh list --title shows.
	Title string
	// Metadata is the rendered ownership element.
	Metadata  string
	Resources providers.Resources
	Firmware  providers.Firmware
	VirtType  providers.VirtType
	Network   providers.Network
	// NoGuestAgent leaves out the agent's channel.
	NoGuestAgent bool
	// RootPath is a qcow2 overlay, SeedPath an ISO 9660 image, ConsolePath where the serial console is logged; its folder
	// must exist on the host, or the start fails.
	RootPath, SeedPath, ConsolePath string
}

// agentChannel is the name under which both sides look for the guest agent's port.
const agentChannel = "org.qemu.guest_agent.0"

// XML renders the domain.
func (d Domain) XML() (string, error) {
	dom := libvirtxml.Domain{
		Type:     domainType(d.VirtType),
		Name:     d.Name,
		UUID:     d.UUID,
		Title:    d.Title,
		Metadata: &libvirtxml.DomainMetadata{XML: d.Metadata},
		Memory:   &libvirtxml.DomainMemory{Value: uint(d.Resources.MemoryBytes), Unit: "b"},
		VCPU:     &libvirtxml.DomainVCPU{Value: uint(d.Resources.CPUs)},
		CPU:      cpu(d.VirtType),
		OS:       bootOS(d.Firmware),
		Features: features(d.Firmware),
		Clock:    &libvirtxml.DomainClock{Offset: "utc"},
		// A reboot inside the guest must stay a reboot; whoever powers off meant it, and the next reconcile decides.
		OnPoweroff: "destroy", OnReboot: "restart", OnCrash: "destroy",
		Devices: d.devices(),
	}
	out, err := dom.Marshal()
	if err != nil {
		return "", fmt.Errorf("render domain %q: %w", d.Name, err)
	}
	return out, nil
}

func domainType(v providers.VirtType) string {
	if v == providers.VirtTypeKVM {
		return "kvm"
	}
	return "qemu"
}

// cpu is left to QEMU's default under emulation, where host-passthrough is refused (code 67).
func cpu(v providers.VirtType) *libvirtxml.DomainCPU {
	if v == providers.VirtTypeKVM {
		return &libvirtxml.DomainCPU{Mode: "host-passthrough"}
	}
	return nil
}

// bootOS names the machine alias, which survives upgrades of the host where a versioned type vanishes, and no loader:
// the host picks one that has the features. firmware='efi' alone would pick one with Microsoft's keys enrolled.
func bootOS(f providers.Firmware) *libvirtxml.DomainOS {
	os := &libvirtxml.DomainOS{
		Type:        &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "q35", Type: "hvm"},
		BootDevices: []libvirtxml.DomainBootDevice{{Dev: "hd"}},
	}
	switch f {
	case providers.FirmwareBIOS: // the host's default
	case providers.FirmwareUEFI:
		os.Firmware, os.FirmwareInfo = "efi", firmwareFeatures("no")
	case providers.FirmwareUEFISecureBoot:
		os.Firmware, os.FirmwareInfo = "efi", firmwareFeatures("yes")
	}
	return os
}

func firmwareFeatures(secure string) *libvirtxml.DomainOSFirmwareInfo {
	return &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
		{Name: "enrolled-keys", Enabled: secure}, {Name: "secure-boot", Enabled: secure},
	}}
}

// features always has ACPI: without it there is no power button, and UEFI is refused.
func features(f providers.Firmware) *libvirtxml.DomainFeatureList {
	l := &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}}
	if f == providers.FirmwareUEFISecureBoot {
		l.SMM = &libvirtxml.DomainFeatureSMM{State: "on"}
	}
	return l
}
