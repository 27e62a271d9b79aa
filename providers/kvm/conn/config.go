package conn

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"
)

// Keys of Config.Credentials. They are the keys of the credentials Secret that the operator documents.
const (
	CredentialSSHKey        = "ssh-privatekey"
	CredentialSSHPassphrase = "ssh-passphrase"
	CredentialKnownHosts    = "known_hosts"
	CredentialTLSCert       = "tls.crt"
	CredentialTLSKey        = "tls.key"
	CredentialCA            = "ca.crt"
)

// Config says how to reach one host. Only Name and URI are always needed.
type Config struct {
	// Name of the host in errors, logs and metrics.
	Name string
	// URI is qemu+ssh, qemu+tcp, qemu+tls or qemu+unix, with ?socket=/path and, for ssh, ?jump=user@bastion:22.
	URI string
	// Credentials holds what the transport needs under the keys above. It is read by New only and never logged.
	Credentials map[string][]byte
	Log         *slog.Logger
	// Metrics may be shared by many hosts; nil counts nothing.
	Metrics *Metrics
	// Hook is for fault injection in tests; nil in production.
	Hook Hook
	// Limits that are zero have their defaults.
	Limits Limits
	// Dial opens a "tcp" or "unix" socket; nil is net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Rand gives the jitter of reconnects, a number in [0,1); nil is math/rand.
	Rand func() float64
}

// Limits are the bounds that keep a host's troubles at that host.
type Limits struct {
	// Connect bounds dial, handshakes and opening together. 20 s: an sshd under load takes several seconds.
	Connect time.Duration
	// Call bounds one call, beside its context. 10 s: libvirt answers in milliseconds, a busy host within seconds.
	Call time.Duration
	// SlowCall bounds the few procedures that do real work on the host (see slowProcedures). 60 s.
	SlowCall time.Duration
	// AgentCall bounds one guest-agent call. 8 s: libvirt itself waits 5 s for a silent agent, and must be the first to give up, since
	// a call that expires here takes the connection with it, and the calls to healthy guests on it.
	AgentCall time.Duration
	// Ping is both the silence after which a ping is sent and the time that it may take. 5 s, as libvirt's own keepalive.
	Ping time.Duration
	// Progress is the time in which a transfer must move MinProgress bytes or end. 60 s.
	Progress time.Duration
	// BackoffMin and BackoffMax bound the pause between two attempts to connect. 250 ms and 30 s.
	BackoffMin, BackoffMax time.Duration
}

const (
	// maxCalls is how many calls are in flight on the main connection. libvirtd serves five requests a client
	// (max_client_requests); the fifth is left for the ping.
	maxCalls = 4
	// maxAgentCalls is lower, because a sick guest holds a request slot of the daemon for seconds.
	maxAgentCalls = 2
	// maxTransfers bounds the extra connections to one host, for sshd's MaxSessions and libvirtd's max_clients.
	maxTransfers = 2
	// minProgress is what a transfer must move within Limits.Progress: about 1 KiB/s, so that a peer that trickles ends too.
	minProgress = 64 << 10
	// stableAfter is how long a connection must have lived before its loss starts the backoff anew.
	stableAfter = 30 * time.Second
	// eventPause is the least time between two bursts of lifecycle events to the consumer.
	eventPause = 100 * time.Millisecond
	// maxBurst is how many different domains a burst names; more become one event that means "look at everything".
	maxBurst = 256
	// sshKeepalive is the interval of ssh keepalives and the time that an answer may take.
	sshKeepalive = 15 * time.Second
)

func (l Limits) withDefaults() Limits {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&l.Connect, 20*time.Second)
	def(&l.Call, 10*time.Second)
	def(&l.SlowCall, 60*time.Second)
	def(&l.AgentCall, 8*time.Second)
	def(&l.Ping, 5*time.Second)
	def(&l.Progress, 60*time.Second)
	def(&l.BackoffMin, 250*time.Millisecond)
	def(&l.BackoffMax, 30*time.Second)
	return l
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.withDefaults()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("hypervisor", c.Name)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}
