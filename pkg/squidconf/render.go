package squidconf

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/go-crypt/crypt/algorithm/shacrypt"
	"go.yaml.in/yaml/v3"
)

// Paths in the machine. The configuration has a name of its own because /etc/squid/squid.conf belongs to the package, which
// asks what to do about a changed one, and its conf.d can only add to a stock configuration that has a port of its own.
const (
	pathConfig    = "/etc/squid/proxyard.conf"
	pathPasswords = "/etc/squid/proxyard.passwd" //nolint:gosec // a path, not a secret
	pathUnit      = "/etc/systemd/system/squid.service.d/proxyard.conf"
	pathAPT       = "/etc/apt/apt.conf.d/90proxyard"
)

// unit makes squid read our configuration from its first start on (the package starts it while it is installed), wait for the
// network, since it never reads an empty resolv.conf again, and come back after a crash.
const unit = `[Unit]
Wants=network-online.target

[Service]
ExecStartPre=
ExecStartPre=/usr/sbin/squid -k parse -f ` + pathConfig + `
ExecStart=
ExecStart=/usr/sbin/squid --foreground -sYC -f ` + pathConfig + `
Restart=on-failure
RestartSec=2
`

// aptConfig lets the installation wait for another user of apt, such as unattended-upgrades, up to 300 seconds.
const aptConfig = `DPkg::Lock::Timeout "300";` + "\n"

//go:embed squid.conf.tmpl
var squidTemplate string

type cloudConfig struct {
	WriteFiles    []file     `yaml:"write_files"`
	PackageUpdate bool       `yaml:"package_update"`
	Packages      []string   `yaml:"packages"`
	Runcmd        [][]string `yaml:"runcmd"`
}

type file struct {
	Path        string `yaml:"path"`
	Permissions string `yaml:"permissions"`
	Content     string `yaml:"content"`
}

// restartIfStock restarts a squid that runs without our file: an image that has squid may have started it before its files were
// written. One that was installed just now has it, and a restart would take it out of service right after it became ready. The
// brackets keep pgrep from finding this command itself.
const restartIfStock = "pgrep -f '[/]etc/squid/proxyard.conf' > /dev/null || systemctl restart squid"

// CloudConfig renders the cloud-config. The same arguments give the same bytes: salt, of any length but zero, is what makes
// the password's hash differ between machines (the Proxy's UID, for example). Errors name the field and never the password.
func CloudConfig(c Config, salt []byte) ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	conf, err := c.squidConf()
	if err != nil {
		return nil, err
	}
	// cloud-init writes files before it installs packages, so squid never starts without its configuration.
	config := cloudConfig{
		WriteFiles: []file{
			{pathConfig, "0644", conf},
			{pathUnit, "0644", unit},
			{pathAPT, "0644", aptConfig},
		},
		PackageUpdate: true,
		Packages:      []string{"squid"},
		Runcmd:        [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "enable", "squid"}, {"sh", "-c", restartIfStock}},
	}
	if c.User != nil {
		line, err := c.User.passwordLine(salt)
		if err != nil {
			return nil, err
		}
		// The group proxy does not exist yet; squid's helper, which is in it, must be able to read the file at once.
		config.WriteFiles = append(config.WriteFiles, file{pathPasswords, "0644", line})
		config.Runcmd = append([][]string{{"chgrp", "proxy", pathPasswords}, {"chmod", "0640", pathPasswords}}, config.Runcmd...)
	}
	return render(config)
}

func render(config cloudConfig) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("#cloud-config\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(config); err != nil {
		return nil, fmt.Errorf("encode the cloud-config: %w", err)
	}
	return b.Bytes(), nil
}

func (c Config) squidConf() (string, error) {
	targets, err := c.targets()
	if err != nil {
		return "", err
	}
	t, err := template.New("squid.conf").Parse(squidTemplate)
	if err != nil {
		return "", fmt.Errorf("parse the template of squid.conf: %w", err)
	}
	clients := make([]string, 0, len(c.AllowedClients))
	for _, p := range c.AllowedClients {
		clients = append(clients, p.Masked().String())
	}
	allow := "clients"
	if c.User != nil {
		allow = "authenticated"
	}
	var b strings.Builder
	err = t.Execute(&b, map[string]any{
		"Hostname": c.Hostname, "Port": c.Port, "Clients": clients, "Targets": targets, "User": c.User != nil,
		"Allow": allow, "Passwords": pathPasswords,
	})
	if err != nil {
		return "", fmt.Errorf("render squid.conf: %w", err)
	}
	return b.String(), nil
}

// Cost of the hash: 20,000 rounds take some 20 ms, and squid asks at most once a minute and user.
const hashRounds = 20_000

// saltLength is the longest salt of SHA-512 crypt, in characters.
const saltLength = 16

// passwordLine is the user's line in a file for basic_ncsa_auth: a SHA-512 crypt hash. bcrypt would ignore all after byte 72.
func (u *User) passwordLine(salt []byte) (string, error) {
	if len(salt) == 0 {
		return "", errors.New("salt: is empty: give the UID of the Proxy")
	}
	digest := sha256.Sum256(append([]byte(u.Name+":"), salt...))
	text := base64.RawStdEncoding.EncodeToString(digest[:])
	hasher, err := shacrypt.New(shacrypt.WithVariant(shacrypt.VariantSHA512), shacrypt.WithIterations(hashRounds))
	if err != nil {
		return "", fmt.Errorf("prepare the password hash: %w", err)
	}
	hash, err := hasher.HashWithSalt(u.Password, []byte(strings.ReplaceAll(text, "+", ".")[:saltLength]))
	if err != nil {
		return "", errors.New("password: cannot be hashed")
	}
	return u.Name + ":" + hash.Encode() + "\n", nil
}
