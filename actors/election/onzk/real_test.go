//go:build coordd_elections

package onzk_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realzookeeper"
)

// sessionTimeout is long enough for a machine that is busy with other tests, and short enough to
// wait for.
const sessionTimeout = 6 * time.Second

// TestReal plays all scenarios on a real ZooKeeper: one server, and for each scenario nodes of its
// own.
func TestReal(t *testing.T) {
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	n := 0
	electiontest.Run(t, func(t *testing.T, play func(*testing.T, electiontest.Store)) {
		n++
		root := fmt.Sprintf("/test-%d/elections", n)
		// The others would lose their leases to those that use the whole machine, or the server.
		if !strings.Contains(t.Name(), "/AStore") {
			t.Parallel()
		}
		delay := time.Duration(0)
		if strings.Contains(t.Name(), "/AConnectionThatIsClosedUnder") {
			delay = -1 // the lease alone has to do
		}
		play(t, &store{t: t, server: server, timeout: sessionTimeout, root: root, delay: delay})
	})
}

type store struct {
	t       *testing.T
	server  *realzookeeper.Server
	timeout time.Duration
	root    string
	delay   time.Duration
}

func (s *store) Virtual() bool { return false }
func (s *store) Stop()         { _ = s.server.Kill() }

func (s *store) Start() {
	_ = s.server.Start()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.server.WaitReady(ctx); err != nil {
		s.t.Fatal(err)
	}
}

func (s *store) Connect() electiontest.Link {
	w := &wire{}
	c, err := onzk.Connect(s.config(w))
	if err != nil {
		s.t.Fatal(err)
	}
	return &link{Conn: c, wire: w, store: s}
}

// begin starts a server of the test's own.
func begin(t *testing.T, timeout time.Duration) *store {
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	return &store{t: t, server: server, timeout: timeout, root: rootOf(t)}
}

// connect returns a connection that is closed when the test is over.
func (s *store) connect(t *testing.T, w *wire) *onzk.Conn {
	t.Helper()
	c, err := onzk.Connect(s.config(w))
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func (s *store) config(w *wire) onzk.Config {
	return onzk.Config{
		Servers: []string{s.server.Addr()}, SessionTimeout: s.timeout, Root: s.root, Dial: w.Dial,
		LockDelay: s.delay,
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// link is a connection that a scenario can break.
type link struct {
	*onzk.Conn
	*wire
	store *store
}

func (l *link) End() {
	session, password := l.Credentials()
	if err := endSession(l.store.server.Addr(), session, password); err != nil {
		l.store.t.Errorf("end the session: %v", err)
	}
}

func nominate(t *testing.T, c election.Connection, name string) *election.Election {
	t.Helper()
	e, err := election.New(c, election.Config{Election: "demo", Name: name,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	must(t, err)
	_, err = e.Nominate(t.Context())
	must(t, err)
	// before the connection is closed: what nobody says stopped lasts for a lease
	t.Cleanup(e.Resign)
	return e
}

func rootOf(t *testing.T) string { return "/" + strings.ReplaceAll(t.Name(), "/", "-") }
