package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

const libvirtdConf = `listen_tls = 0
listen_tcp = 1
auth_tcp = "none"
listen_addr = "0.0.0.0"
auth_unix_rw = "none"
auth_unix_ro = "none"
unix_sock_rw_perms = "0700"
`

// A lab host has neither other users nor AppArmor profiles of its own; that is why these are off, and only why.
const qemuConf = `user = "root"
group = "root"
security_driver = "none"
remember_owner = 0
`

const sshdConfig = `Port 22
HostKey %[1]s/host_ed25519
HostKey %[1]s/host_ecdsa
AuthorizedKeysFile %[1]s/authorized_keys
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitUserRC no
PrintMotd no
AllowStreamLocalForwarding yes
Subsystem sftp internal-sftp
`

// networkXML is routed without any firewall rule ("open"), and sends the guests' DNS questions to the lab's server alone.
const networkXML = `<network>
  <name>default</name>
  <forward mode='open'/>
  <bridge name='virbr0' stp='off' delay='0'/>
  <dns><forwarder addr='%[1]s'/></dns>
  <ip address='10.88.%[2]d.1' netmask='255.255.255.0'>
    <dhcp><range start='10.88.%[2]d.100' end='10.88.%[2]d.199'/></dhcp>
  </ip>
</network>
`

// writeFiles makes the host's folder: what its libvirtd and sshd read, and where they write.
func (h *Host) writeFiles(base string) error {
	for _, dir := range []string{"libvirt-etc", "libvirt-lib/images", "libvirt-cache", "libvirt-log/qemu", "ssh"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			return fmt.Errorf("folder of host %s: %w", h.Name, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(hostsRunDir, h.Name), 0o755); err != nil {
		return fmt.Errorf("folder of host %s: %w", h.Name, err)
	}
	files, err := h.sshFiles(filepath.Join(base, "ssh"))
	if err != nil {
		return fmt.Errorf("keys of host %s: %w", h.Name, err)
	}
	files["libvirt-etc/libvirtd.conf"] = []byte(libvirtdConf)
	files["libvirt-etc/qemu.conf"] = []byte(qemuConf)
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(base, name), data, 0o600); err != nil {
			return fmt.Errorf("folder of host %s: %w", h.Name, err)
		}
	}
	return nil
}

func (h *Host) writeNetwork(n int) (string, error) {
	name := filepath.Join(filepath.Dir(filepath.Dir(h.PrivateKeyFile)), "network.xml")
	if err := os.WriteFile(name, fmt.Appendf(nil, networkXML, Address, n), 0o600); err != nil {
		return "", fmt.Errorf("network %s: %w", strconv.Quote(h.Network), err)
	}
	return name, nil
}

// sshFiles makes new keys for the host and its one user, and fills in the host's PrivateKey and KnownHosts.
func (h *Host) sshFiles(dir string) (map[string][]byte, error) {
	clientPublic, clientKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	hostPublic, hostKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	second, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authorized, err := ssh.NewPublicKey(clientPublic)
	if err != nil {
		return nil, err
	}
	pinned, err := ssh.NewPublicKey(hostPublic)
	if err != nil {
		return nil, err
	}
	h.KnownHosts = []byte(knownhosts.Line([]string{h.Address}, pinned) + "\n")
	files := map[string][]byte{
		"ssh/known_hosts": h.KnownHosts, "ssh/authorized_keys": ssh.MarshalAuthorizedKey(authorized),
		"ssh/sshd_config": fmt.Appendf(nil, sshdConfig, dir), "ssh/shadow": []byte("root:*:20000:0:99999:7:::\nsshd:*:20000::::::\n"),
	}
	for name, key := range map[string]crypto.PrivateKey{"ssh/client": clientKey, "ssh/host_ed25519": hostKey, "ssh/host_ecdsa": second} {
		block, err := ssh.MarshalPrivateKey(key, h.Name)
		if err != nil {
			return nil, err
		}
		files[name] = pem.EncodeToMemory(block)
	}
	h.PrivateKey = files["ssh/client"]
	return files, nil
}
