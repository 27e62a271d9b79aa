package definition

import (
	"fmt"

	"libvirt.org/go/libvirtxml"
)

// Format of a disk image, in libvirt's words.
type Format string

// The formats that a base image may have.
const (
	FormatQCOW2 Format = "qcow2"
	FormatRaw   Format = "raw"
)

// Overlay is a copy-on-write disk over a base image.
type Overlay struct {
	Name string
	// CapacityBytes is the virtual size; it must not be below that of the base, which libvirt does not check: the guest
	// would see a cut disk.
	CapacityBytes int64
	BasePath      string
	// BaseFormat is always stated: without it libvirt records the base as raw and the guest does not boot.
	BaseFormat Format
}

// XML renders the volume.
func (o Overlay) XML() (string, error) {
	return render(libvirtxml.StorageVolume{
		Name:     o.Name,
		Capacity: bytes(o.CapacityBytes),
		// libvirt's default is the format of 2009, which has no lazy refcounts or feature bits.
		Target:       &libvirtxml.StorageVolumeTarget{Format: format(FormatQCOW2), Compat: "1.1"},
		BackingStore: &libvirtxml.StorageVolumeBackingStore{Path: o.BasePath, Format: format(o.BaseFormat)},
	})
}

// RawVolume renders a raw volume of exactly that size, as an upload needs it: a seed or a base image that is not there yet.
// Sizes are always in bytes; libvirt refuses "Gi" and reads "GB" as 10^9.
func RawVolume(name string, size int64) (string, error) {
	return render(libvirtxml.StorageVolume{
		Name:       name,
		Allocation: bytes(0),
		Capacity:   bytes(size),
		Target:     &libvirtxml.StorageVolumeTarget{Format: format(FormatRaw)},
	})
}

// Volume is what libvirt says of a volume.
type Volume struct {
	CapacityBytes, PhysicalBytes int64
	Format                       Format
	BackingPath                  string
	BackingFormat                Format
}

// ParseVolume reads a volume's XML.
func ParseVolume(doc string) (Volume, error) {
	var x libvirtxml.StorageVolume
	if err := x.Unmarshal(doc); err != nil {
		return Volume{}, fmt.Errorf("read volume XML: %w", err)
	}
	var v Volume
	if x.Capacity != nil {
		v.CapacityBytes = int64(x.Capacity.Value)
	}
	if x.Physical != nil {
		v.PhysicalBytes = int64(x.Physical.Value)
	}
	if x.Target != nil && x.Target.Format != nil {
		v.Format = Format(x.Target.Format.Type)
	}
	if b := x.BackingStore; b != nil {
		v.BackingPath = b.Path
		if b.Format != nil {
			v.BackingFormat = Format(b.Format.Type)
		}
	}
	return v, nil
}

func render(v libvirtxml.StorageVolume) (string, error) {
	out, err := v.Marshal()
	if err != nil {
		return "", fmt.Errorf("render volume %q: %w", v.Name, err)
	}
	return out, nil
}

func bytes(n int64) *libvirtxml.StorageVolumeSize {
	return &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(n)}
}

func format(f Format) *libvirtxml.StorageVolumeTargetFormat {
	return &libvirtxml.StorageVolumeTargetFormat{Type: string(f)}
}
