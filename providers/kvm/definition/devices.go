package definition

import (
	"libvirt.org/go/libvirtxml"
)

func (d Domain) devices() *libvirtxml.DomainDeviceList {
	zero := uint(0)
	console := d.console()
	return &libvirtxml.DomainDeviceList{
		// The root disk comes first: the firmware boots the first disk. The seed is virtio-blk as well and read-only: Debian's
		// cloud kernel has no AHCI, so a SATA CD-ROM does not exist for it, and q35 has no IDE.
		Disks: []libvirtxml.DomainDisk{
			disk(d.RootPath, "qcow2", "vda", false),
			disk(d.SeedPath, "raw", "vdb", true),
		},
		Interfaces: []libvirtxml.DomainInterface{d.nic()},
		Serials: []libvirtxml.DomainSerial{{
			Source: console.Source, Log: console.Log,
			Target: &libvirtxml.DomainSerialTarget{Type: "isa-serial", Port: &zero},
		}},
		Consoles: []libvirtxml.DomainConsole{{
			Source: console.Source, Log: console.Log,
			Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: &zero},
		}},
		Channels: d.channels(),
		RNGs: []libvirtxml.DomainRNG{{
			Model:   "virtio",
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}},
		MemBalloon: &libvirtxml.DomainMemBalloon{Model: "virtio"},
		// A proxy has no use for USB, and each controller costs a guest memory and boot time.
		Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
	}
}

// disk is of type file: with type='volume' AppArmor's helper cannot resolve the path and the start is denied.
func disk(path, format, dev string, readonly bool) libvirtxml.DomainDisk {
	dd := libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: format},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}},
		Target: &libvirtxml.DomainDiskTarget{Dev: dev, Bus: "virtio"},
	}
	if readonly {
		dd.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	} else {
		dd.Driver.Discard = "unmap"
	}
	return dd
}

func (d Domain) nic() libvirtxml.DomainInterface {
	src := &libvirtxml.DomainInterfaceSource{}
	if d.Network.Bridge != "" {
		src.Bridge = &libvirtxml.DomainInterfaceSourceBridge{Bridge: d.Network.Bridge}
	} else {
		src.Network = &libvirtxml.DomainInterfaceSourceNetwork{Network: d.Network.Name}
	}
	return libvirtxml.DomainInterface{
		MAC:    &libvirtxml.DomainInterfaceMAC{Address: d.MAC},
		Source: src,
		Model:  &libvirtxml.DomainInterfaceModel{Type: "virtio"},
	}
}

// console logs on the host, beside the disks: that is where ConsoleTail reads it and Delete finds it.
func (d Domain) console() libvirtxml.DomainConsole {
	return libvirtxml.DomainConsole{
		Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
		Log:    &libvirtxml.DomainChardevLog{File: d.ConsolePath, Append: "on"},
	}
}

func (d Domain) channels() []libvirtxml.DomainChannel {
	if d.NoGuestAgent {
		return nil
	}
	return []libvirtxml.DomainChannel{{
		Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}},
		Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: agentChannel}},
	}}
}
