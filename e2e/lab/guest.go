package lab

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed guest/build.sh
var guestScript string

// aptURL is the only address in the guest image: the one of the lab's own HTTP server.
var aptURL = fmt.Sprintf("http://%s:%d/apt/", Address, HTTPPort)

// Image is the guest image: Debian 12 with cloud-init, without squid and guest agent, which it installs from AptDir at boot.
type Image struct {
	Path   string // qcow2
	SHA256 string // hex
	URL    string // where Serve serves it
	AptDir string // flat apt repository
}

// BuildImage gives the guest image from the cache, building it in 2 … 4 minutes if it is not there. It needs root.
func BuildImage(ctx context.Context, log func(format string, args ...any)) (Image, error) {
	dir, err := artifact{name: "guest", inputs: []string{guestScript, aptURL}, build: func(ctx context.Context, into string) error {
		// In namespaces of its own: when the build is cut short, none of its processes and mounts can outlive it and meet the
		// next build in the same folder.
		err := runBuild(ctx, into, log, "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=SIGKILL",
			"--mount-proc", "bash", "-c", guestScript, "guest", into, aptURL)
		if err != nil {
			return err
		}
		sum, err := fileSHA256(filepath.Join(into, "debian.qcow2"))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(into, "debian.qcow2.sha256"), []byte(sum+"\n"), 0o644)
	}}.get(ctx, log)
	if err != nil {
		return Image{}, err
	}
	sum, err := os.ReadFile(filepath.Join(dir, "debian.qcow2.sha256"))
	if err != nil {
		return Image{}, fmt.Errorf("checksum of the guest image: %w", err)
	}
	return Image{
		Path: filepath.Join(dir, "debian.qcow2"), SHA256: strings.TrimSpace(string(sum)),
		URL: fmt.Sprintf("http://%s:%d/images/debian.qcow2", Address, HTTPPort), AptDir: filepath.Join(dir, "apt"),
	}, nil
}

// Image is BuildImage with the lab's log.
func (l *Lab) Image(ctx context.Context) (Image, error) { return BuildImage(ctx, l.log) }

func fileSHA256(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("checksum of %q: %w", name, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
