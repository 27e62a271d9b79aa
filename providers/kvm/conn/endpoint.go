package conn

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/proxyard/proxyard/providers"
)

// Default sockets of the daemon: the monolithic libvirtd first, then the modular one.
const (
	socketLibvirtd  = "/var/run/libvirt/libvirt-sock"
	socketVirtqemud = "/var/run/libvirt/virtqemud-sock"
)

// endpoint is a parsed Config.URI.
type endpoint struct {
	transport string // ssh, tcp, tls or unix
	driver    string // what the daemon is asked to open, for example qemu:///system
	user      string
	host      string // without brackets
	addr      string // host:port
	sockets   []string
	jump      *hop
}

// hop is the ssh server in between.
type hop struct{ user, addr string }

func uriError(format string, args ...any) error {
	return &providers.Error{Kind: providers.Invalid, Reason: ReasonInvalidURI, Msg: "uri: " + fmt.Sprintf(format, args...)}
}

// parseURI never repeats the URI, since somebody may have put a password into it.
func parseURI(uri string) (endpoint, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return endpoint{}, uriError("not a URI; want qemu+ssh://user@host:22/system, or qemu+tcp, qemu+tls, qemu+unix")
	}
	transport, ok := strings.CutPrefix(u.Scheme, "qemu+")
	if !ok || !slices.Contains([]string{"ssh", "tcp", "tls", "unix"}, transport) {
		return endpoint{}, uriError("scheme %q is none of qemu+ssh, qemu+tcp, qemu+tls, qemu+unix", u.Scheme)
	}
	if _, has := u.User.Password(); has {
		return endpoint{}, uriError("holds a password; put a key into the credentials Secret instead")
	}
	if u.Path != "/system" && u.Path != "/session" && u.Path != "" && u.Path != "/" {
		return endpoint{}, uriError("path %q is neither /system nor /session", u.Path)
	}
	path := "/system"
	if u.Path == "/session" {
		path = u.Path
	}
	e := endpoint{transport: transport, driver: "qemu://" + path, user: u.User.Username(), host: u.Hostname()}
	if err := e.setAddr(u.Port()); err != nil {
		return endpoint{}, err
	}
	if err := e.setQuery(u.RawQuery); err != nil {
		return endpoint{}, err
	}
	return e, nil
}

func (e *endpoint) setAddr(port string) error {
	if e.transport == "unix" {
		if e.host != "" {
			return uriError("qemu+unix has no host; write qemu+unix:///system?socket=/path")
		}
		return nil
	}
	if e.host == "" {
		return uriError("names no host")
	}
	if port == "" {
		port = map[string]string{"ssh": "22", "tcp": "16509", "tls": "16514"}[e.transport]
	}
	if e.transport == "ssh" && e.user == "" {
		e.user = "root"
	}
	e.addr = net.JoinHostPort(e.host, port)
	return nil
}

func (e *endpoint) setQuery(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return uriError("its query is malformed")
	}
	local := e.transport == "ssh" || e.transport == "unix"
	if local {
		e.sockets = []string{socketLibvirtd, socketVirtqemud}
	}
	for key, values := range query {
		usable := len(values) == 1 && (key == "socket" && local || key == "jump" && e.transport == "ssh")
		if !usable {
			return uriError("parameter %q is unknown, doubled or not for this transport; there are socket (ssh, unix) and jump (ssh)", key)
		}
		if err := e.setParameter(key, values[0]); err != nil {
			return err
		}
	}
	return nil
}

func (e *endpoint) setParameter(key, value string) (err error) {
	if key == "jump" {
		e.jump, err = parseHop(value, e.user)
		return err
	}
	if !strings.HasPrefix(value, "/") {
		return uriError("socket %q is no absolute path", value)
	}
	e.sockets = []string{value}
	return nil
}

func parseHop(s, user string) (*hop, error) {
	u, err := url.Parse("ssh://" + s)
	if err != nil || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" {
		return nil, uriError("jump is not of the form user@host:port")
	}
	if _, has := u.User.Password(); has {
		return nil, uriError("jump holds a password; the key of the credentials Secret is used there too")
	}
	port := u.Port()
	if port == "" {
		port = "22"
	}
	if name := u.User.Username(); name != "" {
		user = name
	}
	return &hop{user: user, addr: net.JoinHostPort(u.Hostname(), port)}, nil
}
