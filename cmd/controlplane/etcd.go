package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// store is the embedded etcd. It listens on unix sockets in a folder that only this user may enter: etcd asks nobody for a
// password here, and on a loopback port every user of the machine could read the Secrets.
type store struct {
	etcd     *embed.Etcd
	sockets  string
	endpoint string
}

func startEtcd(ctx context.Context, dir string) (*store, error) {
	// In the temporary folder since a socket's path has at most 107 bytes and --dir may be long.
	sockets, err := os.MkdirTemp("", "proxyard-etcd-")
	if err != nil {
		return nil, fmt.Errorf("folder for etcd's sockets: %w", err)
	}
	s := &store{sockets: sockets}
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "client.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "peer.sock")}
	s.endpoint = client.String()

	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{filepath.Join(dir, "etcd.log")}
	// The data lives as long as a demo or a test: no reason to wait for the disk at each write.
	cfg.UnsafeNoFsync = true
	if s.etcd, err = embed.StartEtcd(cfg); err != nil {
		s.close()
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return s, nil
	case err = <-s.etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.close()
	return nil, fmt.Errorf("etcd became no leader: %w", err)
}

// close writes out what etcd holds. Not etcd.Close, which first waits 7 s for clients to hang up: ours is the API server in
// this process, and it ends with it.
func (s *store) close() {
	if s.etcd != nil {
		s.etcd.Server.Stop()
	}
	_ = os.RemoveAll(s.sockets)
}
