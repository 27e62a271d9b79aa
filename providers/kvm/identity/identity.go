// Package identity derives every name that a machine has on its host from the machine's owner, and nothing else: the
// domain's UUID, name and MAC address, and the names of its volumes. The same owner always gets the same names, so a create
// that was cut off anywhere is found again, and two owners never get the same ones.
//
// The kvm provider is its caller. The names are persistent: changing one orphans what exists.
package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

// space is the UUIDv5 name space of Proxyard's machines. It must never change.
var space = uuid.MustParse("6b0d1a6e-7f0c-5c55-9f0a-70726f787961")

// clusterDigits is the length of the part of a name that tells clusters apart. Ownership never rests on it alone: domains
// carry the whole cluster ID in their metadata, and volume names the machine's UUID, which is derived from it.
const clusterDigits = 8

// Suffixes of the volumes of one machine. Whatever starts with the machine's name belongs to it.
const (
	suffixRoot    = "-root.qcow2"
	suffixSeed    = "-seed.iso"
	suffixConsole = "-console.log"
)

// Machine holds the names of one machine on one host.
type Machine struct{ UUID uuid.UUID }

// MachineOf derives the identity of the owner's machine on a host.
func MachineOf(tag providers.Tag, host string) Machine {
	name := strings.Join([]string{tag.ClusterID, tag.UID, host}, "\x00")
	return Machine{UUID: uuid.NewSHA1(space, []byte(name))}
}

// Parse reads the machine part of a provider ID.
//
// Errors: Invalid.
func Parse(s string) (Machine, error) {
	u, err := uuid.Parse(s)
	if err != nil || u.String() != s {
		return Machine{}, &providers.Error{Kind: providers.Invalid, Reason: "InvalidProviderID", Msg: fmt.Sprintf("%q is not a domain UUID in lower case", s)}
	}
	return Machine{UUID: u}, nil
}

// MAC returns the locally administered unicast address of the machine's NIC: 02, then 40 bits of a hash of the UUID.
// Without a stable one, a redefined domain gets a random address and the guest a new lease.
func (m Machine) MAC() string {
	sum := sha256.Sum256(m.UUID[:])
	return net.HardwareAddr(append([]byte{0x02}, sum[:5]...)).String()
}

// Cluster builds the names that belong to one cluster.
type Cluster string

// prefix starts the name of everything that the cluster owns on a host.
func (c Cluster) prefix() string {
	sum := sha256.Sum256([]byte(c))
	return "pxy-" + hex.EncodeToString(sum[:])[:clusterDigits] + "-"
}

// Domain is the domain's name: short, [a-z0-9-], and unique on any host. People find their Proxy by the domain's title.
func (c Cluster) Domain(m Machine) string { return c.prefix() + m.UUID.String() }

// Root is the name of the volume that the machine boots from.
func (c Cluster) Root(m Machine) string { return c.Domain(m) + suffixRoot }

// Seed is the name of the volume that holds the machine's cloud-init documents.
func (c Cluster) Seed(m Machine) string { return c.Domain(m) + suffixSeed }

// Console is the name of the volume that takes what the machine prints on its serial console.
func (c Cluster) Console(m Machine) string { return c.Domain(m) + suffixConsole }

// IsRoot reports whether the volume name is that of some machine's root disk.
func (c Cluster) IsRoot(name string) bool {
	_, ours := c.MachineOfName(name)
	return ours && strings.HasSuffix(name, suffixRoot)
}

// Image is the name of the base volume for a checksum ("sha256:<hex>" or "sha512:<hex>"): 128 bits of the digest tell images
// apart, and the algorithm is part of the name.
func (c Cluster) Image(checksum string) string {
	algorithm, digest, _ := strings.Cut(checksum, ":")
	return c.prefix() + "img-" + algorithm + "-" + digest[:min(32, len(digest))]
}

// ImageMark is the name of the volume that records that the base volume is complete.
func (c Cluster) ImageMark(checksum string) string { return c.Image(checksum) + imageMarkSuffix }

const imageMarkSuffix = ".json"

// MachineOfName returns the machine whose domain or volume has this name.
func (c Cluster) MachineOfName(name string) (Machine, bool) {
	rest, ok := strings.CutPrefix(name, c.prefix())
	const uuidLen = 36
	if !ok || len(rest) < uuidLen {
		return Machine{}, false
	}
	m, err := Parse(rest[:uuidLen])
	return m, err == nil
}

// IsImage reports whether the volume name is that of a base image of this cluster, complete or not.
func (c Cluster) IsImage(name string) bool { return strings.HasPrefix(name, c.prefix()+"img-") }

// IsImageMark reports whether the volume name marks a complete base image of this cluster.
func (c Cluster) IsImageMark(name string) bool {
	rest, ok := strings.CutPrefix(name, c.prefix()+"img-")
	return ok && strings.HasSuffix(rest, imageMarkSuffix)
}
