//go:build coordd_elections

package onzk_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/coordd/coordd/test/realzookeeper"
	"github.com/go-zookeeper/zk"
)

// With credentials an election belongs to whoever has them, and over TLS nobody listens; also after
// a reconnection, for the departure of a candidate that died, and where others may not even read.
func TestAnElectionBelongsToWhoeverHasItsCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := realconsul.MakeTLS(dir)
	must(t, err)
	read := func(path string) []byte {
		t.Helper()
		b, err := os.ReadFile(path)
		must(t, err)
		return b
	}
	both := filepath.Join(dir, "both.pem")
	must(t, os.WriteFile(both, append(read(files.Key), read(files.Cert)...), 0o600))
	server := realzookeeper.Start(t, realzookeeper.Options{KeyStore: both,
		TrustStore: files.CA}).Servers[0]
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(files.CA))
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	must(t, err)
	config := func(w *wire, digest string) onzk.Config {
		cfg := (&store{t: t, server: server, timeout: sessionTimeout}).config(w)
		cfg.Servers, cfg.Digest, cfg.Root = []string{server.SecureAddr()}, digest,
			"/theirs/elections"
		cfg.TLS = func() *tls.Config {
			return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
		}
		return cfg
	}
	connect := func(cfg onzk.Config) *onzk.Conn {
		t.Helper()
		c, err := onzk.Connect(cfg)
		must(t, err)
		t.Cleanup(c.Close)
		return c
	}
	w := &wire{}
	ours := connect(config(w, "coordd:secret"))
	a := nominate(t, ours, "a")
	becomes(t, a, election.Leading)
	b := nominate(t, ours, "b")
	becomes(t, b, election.Following)

	for _, path := range []string{"/theirs", "/theirs/elections", "/theirs/elections/demo",
		"/theirs/elections/demo/leader"} {
		acl, _, err := ours.ZK().GetACL(path)
		if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || acl[0].Perms != zk.PermAll {
			t.Errorf("%s may be used by %v (%v)", path, acl, err)
		}
	}
	for _, digest := range []string{"", "coordd:wrong"} {
		theirs := connect(config(&wire{}, digest))
		e := nominate(t, theirs, "stranger")
		if _, err := e.Candidates(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("with the digest %q the candidates are read: %v", digest, err)
		}
		if err := e.End(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("with the digest %q the election is ended: %v", digest, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if s, err := e.State().Wait(ctx, func(s election.Status) bool {
			return s.What == election.Waiting && s.Reason != ""
		}); err != nil {
			t.Errorf("with the digest %q a candidate is told %v", digest, s)
		}
		cancel()
		e.Resign()
	}

	w.Cut()
	time.Sleep(100 * time.Millisecond)
	w.Mend() // breaks the connection; the next one is introduced anew
	a.Resign()
	becomes(t, b, election.Leading)
	session := ours.Contact().Get().Session
	if led, err := onzk.Depart(t.Context(), config(&wire{}, ""), "demo", session); !errors.Is(err,
		zk.ErrNoAuth) {
		t.Errorf("a departure without credentials: %v, %v", led, err)
	}
	if led, err := onzk.Depart(t.Context(), config(&wire{}, "coordd:secret"), "demo",
		session); !led || err != nil {
		t.Errorf("a departure: %v, %v", led, err)
	}

	// Whoever does not know the authority, or is not known to it, is no client.
	for name, cfg := range map[string]*tls.Config{
		"no authority":   {Certificates: []tls.Certificate{pair}},
		"no certificate": {RootCAs: pool}} {
		c := config(&wire{}, "coordd:secret")
		c.TLS = func() *tls.Config { return cfg }
		stranger := connect(c)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if _, err := stranger.Contact().Wait(ctx, func(c election.Contact) bool {
			return c.Session != ""
		}); err == nil {
			t.Errorf("with %s there is a session", name)
		}
		cancel()
	}
}

// An administrator may keep the node / to himself. A candidate needs nothing of it but to be
// answered.
func TestALeaderLeadsOnWhereTheRootNodeMayNotBeRead(t *testing.T) {
	s := begin(t, sessionTimeout)
	admin := s.connect(t, &wire{}).ZK()
	must(t, admin.AddAuth("digest", []byte("admin:secret")))
	_, err := admin.Create(s.root, nil, 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	_, err = admin.SetACL("/", zk.DigestACL(zk.PermAll, "admin", "secret"), -1)
	must(t, err)
	e := nominate(t, s.connect(t, &wire{}), "a")
	becomes(t, e, election.Leading)
	ctx, cancel := context.WithTimeout(t.Context(), 2*sessionTimeout)
	defer cancel()
	if now, err := e.State().Wait(ctx, func(s election.Status) bool {
		return s.Role != election.Leading
	}); err == nil {
		t.Errorf("it led, and is told %v", now)
	}
}
