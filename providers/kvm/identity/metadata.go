package identity

import (
	"encoding/xml"
	"fmt"

	"github.com/proxyard/proxyard/providers"
)

// MetadataURI is the XML name space of the element that marks a domain as ours. Libvirt silently drops metadata elements
// that have none, and keeps only the first of several in one.
const MetadataURI = "https://proxyard.dev/xmlns/machine/v1"

// FormatVersion is the version of the element and of the domain it describes.
const FormatVersion = 1

// Metadata is the element in a domain's <metadata>. Together with the UUID it proves ownership, and it is the contract of
// garbage collection.
type Metadata struct {
	// XMLName has no name space in its tag: libvirt takes it off the element that it returns.
	XMLName   xml.Name
	Version   int    `xml:"version,attr"`
	ClusterID string `xml:"cluster,attr"`
	Namespace string `xml:"namespace,attr"`
	Name      string `xml:"name,attr"`
	UID       string `xml:"uid,attr"`
	// Host is the name of the hypervisor under which the machine was made; the UUID depends on it.
	Host string `xml:"host,attr"`
	// Pool holds the machine's volumes, so that they are found even when the hypervisor names another pool later.
	Pool string `xml:"pool,attr"`
	// Digest of the intended machine, recorded so that drift can be told by it; XML text never can, since libvirt rewrites it.
	Digest string `xml:"digest,attr"`
}

// MetadataFor fills the element for an owner.
func MetadataFor(tag providers.Tag, host, pool, digest string) Metadata {
	return Metadata{
		XMLName: xml.Name{Space: MetadataURI, Local: "machine"},
		Version: FormatVersion, ClusterID: tag.ClusterID, Namespace: tag.Namespace, Name: tag.Name, UID: tag.UID,
		Host: host, Pool: pool, Digest: digest,
	}
}

// Tag is the owner that the element names.
func (d Metadata) Tag() providers.Tag {
	return providers.Tag{ClusterID: d.ClusterID, Namespace: d.Namespace, Name: d.Name, UID: d.UID}
}

// Owns reports whether the element and the UUID agree that the machine belongs to the cluster. Either alone proves nothing:
// metadata can be copied with a domain's XML, and a UUID says nothing about who defined it.
func (d Metadata) Owns(c Cluster, m Machine) bool {
	return d.ClusterID == string(c) && MachineOf(d.Tag(), d.Host) == m
}

// Marshal renders the element.
func (d Metadata) Marshal() (string, error) {
	out, err := xml.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("render the ownership metadata: %w", err)
	}
	return string(out), nil
}

// ParseMetadata reads an element as libvirt returns it.
func ParseMetadata(s string) (Metadata, error) {
	var d Metadata
	if err := xml.Unmarshal([]byte(s), &d); err != nil {
		return Metadata{}, fmt.Errorf("read the ownership metadata: %w", err)
	}
	return d, nil
}
