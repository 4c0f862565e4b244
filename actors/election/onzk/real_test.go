//go:build coordd_elections

package onzk_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realzookeeper"
)

// sessionTimeout is long enough for a machine that is busy with other tests, and short enough to
// wait for. Where a thousand candidates share the machine with the server it is longer.
const (
	sessionTimeout = 6 * time.Second
	busyTimeout    = 8 * time.Second
	crowdTimeout   = 30 * time.Second
)

// TestReal plays all scenarios on a real ZooKeeper: one server, and for each scenario nodes of its
// own.
func TestReal(t *testing.T) {
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	n := 0
	electiontest.Run(t, func(t *testing.T, play func(*testing.T, electiontest.Store)) {
		n++
		root := fmt.Sprintf("/test-%d/elections", n)
		// The others would lose their leases to those that use the whole machine, or the server.
		if !strings.Contains(t.Name(), "Many") && !strings.Contains(t.Name(), "/EverySession") &&
			!strings.Contains(t.Name(), "/AStore") {
			t.Parallel()
		}
		timeout := sessionTimeout
		if strings.Contains(t.Name(), "Many") {
			timeout = crowdTimeout
		}
		delay := time.Duration(0)
		if strings.Contains(t.Name(), "/EverySession") {
			timeout = busyTimeout
		}
		if strings.Contains(t.Name(), "/EverySessionThatExpires") ||
			strings.Contains(t.Name(), "/AConnectionThatIsClosedUnder") {
			delay = -1 // the lease alone has to do
		}
		play(t, &store{t: t, server: server, timeout: timeout, root: root, delay: delay})
	})
}

type store struct {
	t       *testing.T
	server  *realzookeeper.Server
	timeout time.Duration
	root    string
	delay   time.Duration

	mu    sync.Mutex
	known map[string]bool
	asked time.Time
}

func (s *store) Expiries() (elections, rounds int) { return 200, 5 }
func (s *store) Endings() (elections, rounds int)  { return 200, 2 }
func (s *store) Virtual() bool                     { return false }
func (s *store) Stop()                             { _ = s.server.Kill() }

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

// Expire waits until the server has forgotten the session by itself.
func (l *link) Expire() {
	session, _ := l.Credentials()
	l.Cut()
	defer l.Mend()
	begin := time.Now()
	for deadline := begin.Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(
		50 * time.Millisecond) {
		if known, asked := l.store.sessions(); asked.After(begin) &&
			!known[fmt.Sprintf("0x%x", uint64(session))] {
			return
		}
	}
	l.store.t.Errorf("session %x has not expired", session)
}

// sessions are those that the server knows, as of the moment asked. All who want to know share one
// answer every tenth of a second.
func (s *store) sessions() (known map[string]bool, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) < 100*time.Millisecond {
		return s.known, s.asked
	}
	now := time.Now()
	answer, err := s.server.Ask(context.Background(), "dump")
	if err != nil || !strings.Contains(answer, "Session Sets") {
		return nil, time.Time{}
	}
	s.known, s.asked = map[string]bool{}, now
	for line := range strings.Lines(answer) {
		s.known[strings.TrimSuffix(strings.TrimSpace(line), ":")] = true
	}
	return s.known, s.asked
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
