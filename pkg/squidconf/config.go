package squidconf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// User is the one that may use the proxy.
type User struct{ Name, Password string }

// Config is what may differ between two squids.
type Config struct {
	// Hostname is what squid calls itself in its error pages: a DNS name.
	Hostname string
	// Port is the TCP port for clients.
	Port int
	// AllowedClients are the networks that are served: at least one, none wider than /8 (IPv4 and, within fc00::/7, IPv6) or /16 (IPv6).
	AllowedClients []netip.Prefix
	// User must be named by clients; nil means that no password is asked for.
	User *User
	// ExtraTargets are "host:port" pairs that are served although they lie in a private network or on another port than 80
	// and 443, such as the target of the health probe. An IP address stands for itself and for every name that resolves to it,
	// a DNS name only for requests that use this name. Loopback and link-local addresses stay refused, also behind a name. An IPv6 address stands in brackets.
	ExtraTargets []string
}

// Widest networks that are no open proxy by mistake, in bits.
const (
	minBitsIPv4 = 8
	minBitsIPv6 = 16
	// minBitsPrivate is the same within the private networks of RFC 1918 and RFC 4193.
	minBitsPrivate = 8
)

func (c Config) validate() error {
	if !isName(c.Hostname) {
		return fmt.Errorf("hostname %q: use a DNS name of letters, digits, hyphens and dots", c.Hostname)
	}
	if c.Port < 1 || c.Port > 65535 {
		return fmt.Errorf("port %d: use 1 to 65535", c.Port)
	}
	if len(c.AllowedClients) == 0 {
		return errors.New("allowedClients: name at least one network; there is no open proxy")
	}
	for _, p := range c.AllowedClients {
		if err := validateClients(p); err != nil {
			return err
		}
	}
	return c.User.validate()
}

func validateClients(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return errors.New("allowedClients: an entry is not a network: write it like 10.0.0.0/8")
	case p.Addr().Is4In6():
		return fmt.Errorf("allowedClients %q: write an IPv4 network as such", p)
	case p.Addr().IsPrivate() && p.Bits() >= minBitsPrivate: // fd00::/8 is one organisation's own, as 10.0.0.0/8 is
	case p.Addr().Is4() && p.Bits() < minBitsIPv4, p.Addr().Is6() && p.Bits() < minBitsIPv6:
		return fmt.Errorf("allowedClients %q: wider than /%d for IPv4 or /%d for IPv6 would make an open proxy: name the networks of your clients", p, minBitsIPv4, minBitsIPv6)
	case p.Addr().Zone() != "":
		return fmt.Errorf("allowedClients %q: leave out the zone", p)
	}
	return nil
}

// validate follows basic_ncsa_auth: its file has a user a line, the name up to the colon, and comments. Messages quote
// neither: both come from a Secret.
func (u *User) validate() error {
	switch {
	case u == nil:
		return nil
	case u.Name == "" || strings.ContainsAny(u.Name, ":\r\n\t\x00") || strings.HasPrefix(u.Name, "#") || strings.TrimSpace(u.Name) != u.Name:
		return errors.New("username: must not be empty, begin with # or a space, end with a space, or hold a colon, a tab or a line break")
	case u.Password == "":
		return errors.New("password: is empty: set one, or give no credentials at all")
	case strings.ContainsAny(u.Password, "\r\n\x00"):
		return errors.New("password: holds a line break or a NUL, which clients cannot send: choose another (a Secret made with echo has a line break at its end)")
	}
	return nil
}

// target is one of Config.ExtraTargets, for the template.
type target struct {
	Host string
	Port uint16
	IsIP bool
}

func (c Config) targets() ([]target, error) {
	var out []target
	for _, s := range c.ExtraTargets {
		host, portText, err := net.SplitHostPort(s)
		port, portErr := strconv.ParseUint(portText, 10, 16)
		if err != nil || portErr != nil || port == 0 {
			return nil, fmt.Errorf("extraTargets %q: write host:port, such as probe.lan:80 or [fd00::1]:80", s)
		}
		ip, err := netip.ParseAddr(host)
		switch {
		case err != nil && !isName(host):
			return nil, fmt.Errorf("extraTargets %q: the host must be an IP address or a DNS name", s)
		case err == nil && (ip.Zone() != "" || ip.Is4In6() || ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast()):
			return nil, fmt.Errorf("extraTargets %q: loopback, link-local and multicast addresses are never served", s)
		}
		out = append(out, target{Host: strings.ToLower(host), Port: uint16(port), IsIP: err == nil})
	}
	return out, nil
}

// maxName is the longest DNS name.
const maxName = 253

func isName(s string) bool {
	return len(s) <= maxName &&
		regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`).MatchString(s)
}
