package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/reread"
	"github.com/spf13/pflag"
)

// zookeeperFlags say where ZooKeeper is, and with which credentials it is asked. The guard process
// gets them too: names of files, no secrets.
type zookeeperFlags struct {
	Servers  []string
	AuthFile string `json:",omitempty"`
	TLS      bool   `json:",omitempty"`
	CA       string `json:",omitempty"`
	Cert     string `json:",omitempty"`
	Key      string `json:",omitempty"`
}

func (z *zookeeperFlags) register(f *pflag.FlagSet) {
	f.StringSliceVar(&z.Servers, "zookeeper", nil,
		"Hold the election on ZooKeeper instead; its `servers`: host:port,...")
	f.StringVar(&z.AuthFile, "zookeeper-auth-file", "",
		"A `file` with user:password for ZooKeeper's scheme digest, in one line. What is made "+
			"belongs to that user, and nobody else can read or change it.")
	f.BoolVar(&z.TLS, "zookeeper-tls", false,
		"Speak TLS with ZooKeeper (its secureClientPort). The next three imply it.")
	f.StringVar(&z.CA, "zookeeper-ca-file", "",
		"The PEM `file` of the authority that signed ZooKeeper's certificates. Without it: the "+
			"host's own.")
	f.StringVar(&z.Cert, "zookeeper-cert-file", "",
		"The PEM `file` of the certificate to show to ZooKeeper.")
	f.StringVar(&z.Key, "zookeeper-key-file", "", "The PEM `file` of that certificate's key.")
}

// some tells whether any of what goes with ZooKeeper's servers is given.
func (z *zookeeperFlags) some() bool {
	return z.AuthFile != "" || z.TLS || z.CA != "" || z.Cert != "" || z.Key != ""
}

// withAbsolutePaths returns z with paths that do not depend on a process's directory.
func (z zookeeperFlags) withAbsolutePaths() zookeeperFlags {
	for _, file := range []*string{&z.AuthFile, &z.CA, &z.Cert, &z.Key} {
		if abs, err := filepath.Abs(*file); err == nil && *file != "" {
			*file = abs
		}
	}
	return z
}

// configure reads the files. Those of certificates are read again when they change. Who makes nodes
// owns them, so another user and password need another start.
func (z *zookeeperFlags) configure(cfg *onzk.Config) error {
	cfg.Servers = z.Servers
	if z.AuthFile != "" {
		text, err := os.ReadFile(z.AuthFile)
		if err != nil {
			return fmt.Errorf("--zookeeper-auth-file: %w", err)
		}
		cfg.Digest = trimmed(string(text))
		if !strings.Contains(cfg.Digest, ":") || strings.ContainsFunc(cfg.Digest, unicode.IsControl) {
			return fmt.Errorf("--zookeeper-auth-file %s: write user:password into it, in one line",
				z.AuthFile)
		}
	}
	if !z.TLS && z.CA == "" && z.Cert == "" {
		return nil
	}
	files, err := reread.TLS("certificates for ZooKeeper", func(to *tls.Config) *tls.Config {
		return to
	}, z.CA, z.Cert, z.Key)
	if err != nil {
		return fmt.Errorf("--zookeeper-ca-file, --zookeeper-cert-file, --zookeeper-key-file: %w",
			err)
	}
	cfg.TLS = files.Get
	return nil
}

// zooKeeperConfig returns the settings of the connection to ZooKeeper.
func (o *electFlags) zooKeeperConfig(log *slog.Logger) (onzk.Config, error) {
	cfg := onzk.Config{SessionTimeout: o.ttl, LockDelay: o.lockDelay, Root: o.prefix,
		HoldBack: o.holdBack, Logger: log}
	return cfg, o.zookeeper.configure(&cfg)
}
