package kvm

import (
	"context"
	"encoding/xml"
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
)

// facts are what a host tells once a connection.
type facts struct {
	libvirt, hypervisor string
	hostUUID            string
	virtType            providers.VirtType
	cpus                int
	memoryBytes         int64
	// stale says that the connection they came over is gone.
	stale bool
}

func (f facts) known() bool { return f.hostUUID != "" && !f.stale }

// learn asks for the facts: five calls, made once a connection.
func (h *host) learn(ctx context.Context) (facts, error) {
	return conn.Call(ctx, h.conn, "ConnectGetCapabilities", func(l *libvirt.Libvirt) (facts, error) {
		var f facts
		lib, err := l.ConnectGetLibVersion()
		if err != nil {
			return f, err
		}
		hv, err := l.ConnectGetVersion()
		if err != nil {
			return f, err
		}
		f.libvirt, f.hypervisor = version(lib), version(hv)
		_, kib, cpus, _, _, _, _, _, err := l.NodeGetInfo()
		if err != nil {
			return f, err
		}
		f.cpus, f.memoryBytes = int(cpus), int64(kib)<<10
		doc, err := l.ConnectGetCapabilities()
		if err != nil {
			return f, err
		}
		caps, err := parseCapabilities(doc)
		if err != nil {
			return f, err
		}
		f.hostUUID = caps.Host.UUID
		f.virtType = h.spec.VirtType
		if f.virtType == providers.VirtTypeAuto || f.virtType == "" {
			// The expanded list names every feature, those that the CPU model implies included: EPYC implies svm.
			expanded, _ := l.ConnectBaselineCPU([]string{caps.Host.CPU.String()}, libvirt.ConnectBaselineCPUExpandFeatures)
			f.virtType = resolveVirtType(caps, expanded)
		}
		return f, nil
	})
}

// version reads libvirt's numbers: major*1000000 + minor*1000 + release.
func version(v uint64) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1_000%1_000, v%1_000)
}

type capabilities struct {
	Host struct {
		UUID string  `xml:"uuid"`
		CPU  hostCPU `xml:"cpu"`
	} `xml:"host"`
	Guests []struct {
		OSType string `xml:"os_type"`
		Arch   struct {
			Name    string `xml:"name,attr"`
			Domains []struct {
				Type string `xml:"type,attr"`
			} `xml:"domain"`
		} `xml:"arch"`
	} `xml:"guest"`
}

type hostCPU struct {
	Inner    string       `xml:",innerxml"`
	Features []cpuFeature `xml:"feature"`
}

type cpuFeature struct {
	Name string `xml:"name,attr"`
}

// String is the element as ConnectBaselineCPU wants it back.
func (c hostCPU) String() string { return "<cpu>" + c.Inner + "</cpu>" }

func (c hostCPU) virtualises() bool {
	for _, f := range c.Features {
		if f.Name == "vmx" || f.Name == "svm" {
			return true
		}
	}
	return false
}

func parseCapabilities(doc string) (capabilities, error) {
	var c capabilities
	if err := xml.Unmarshal([]byte(doc), &c); err != nil {
		return c, fmt.Errorf("read the host's capabilities: %w", err)
	}
	return c, nil
}

// resolveVirtType takes KVM only where the host offers it and its CPU has vmx or svm: /dev/kvm may exist, and libvirt list
// the type, where a guest then hangs.
func resolveVirtType(c capabilities, expanded string) providers.VirtType {
	var all hostCPU
	hasFeature := c.Host.CPU.virtualises() || (xml.Unmarshal([]byte(expanded), &all) == nil && all.virtualises())
	for _, g := range c.Guests {
		for _, d := range g.Arch.Domains {
			if d.Type == "kvm" && g.OSType == "hvm" && g.Arch.Name == "x86_64" && hasFeature {
				return providers.VirtTypeKVM
			}
		}
	}
	return providers.VirtTypeQEMU
}
