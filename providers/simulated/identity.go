package simulated

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

// machineID derives a machine's UUID from installation, owner and host, so that a second Create finds the first one's work.
func machineID(clusterID, uid, host string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(clusterID+"\x00"+uid+"\x00"+host))
}

// machineName is what a host calls the machine; the UUID's 48 random-like bits tell installations and hosts apart.
func machineName(id uuid.UUID) string { return "px-" + id.String()[24:] }

func (p *Provider) providerID(host string, id uuid.UUID) providers.ProviderID {
	return providers.NewProviderID(p.opt.Name, host, id.String())
}

func (p *Provider) parse(id providers.ProviderID) (host string, machine uuid.UUID, err error) {
	host, name, err := id.Split(p.opt.Name)
	if err != nil {
		return "", uuid.Nil, err
	}
	machine, err = uuid.Parse(name)
	if err != nil || machine.String() != name { // Parse also takes braces, URNs and upper case, which we never give out
		return "", uuid.Nil, invalid("InvalidProviderID", "provider ID %q does not end in a UUID", string(id))
	}
	return host, machine, nil
}

func invalid(reason, format string, args ...any) error {
	return &providers.Error{Kind: providers.Invalid, Reason: reason, Msg: fmt.Sprintf(format, args...)}
}

var checksumForm = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// validate answers what can never work, whatever the host.
func (p *Provider) validate(m providers.Machine) error {
	switch {
	case m.Tag.ClusterID != p.opt.ClusterID:
		return invalid("InvalidSpec", "tag.clusterID %q is not this provider's %q", m.Tag.ClusterID, p.opt.ClusterID)
	case m.Tag.UID == "":
		return invalid("InvalidSpec", "tag.uid is empty")
	case m.Host == "":
		return invalid("InvalidSpec", "host is empty")
	case m.Image.URL == "":
		return invalid("InvalidSpec", "image.url is empty")
	case !checksumForm.MatchString(m.Image.Checksum):
		return invalid("InvalidSpec", "image.checksum %q is neither sha256:<64 hex digits> nor sha512:<128 hex digits>", m.Image.Checksum)
	case m.Resources.CPUs < 1 || m.Resources.MemoryBytes < 1 || m.Resources.DiskBytes < 1:
		return invalid("InvalidSpec", "resources must be positive: %d CPUs, %d bytes of memory, %d bytes of disk", m.Resources.CPUs, m.Resources.MemoryBytes, m.Resources.DiskBytes)
	}
	return nil
}

var squidPort = regexp.MustCompile(`(?m)\bhttp_port\s+(?:\S+:)?(\d{1,5})\b`)

// portOf is where the machine's squid listens: what its user-data says, as a real guest would.
func (p *Provider) portOf(m providers.Machine) uint16 {
	if hit := squidPort.FindSubmatch(m.UserData); hit != nil {
		if n, err := strconv.ParseUint(string(hit[1]), 10, 16); err == nil && n > 0 {
			return uint16(n)
		}
	}
	return p.opt.Port
}
