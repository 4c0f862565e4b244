package onzk_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// TestEmbedded plays all scenarios on a ZooKeeper in this process, in virtual time.
func TestEmbedded(t *testing.T) {
	electiontest.Run(t, func(t *testing.T, play func(*testing.T, electiontest.Store)) {
		synctest.Test(t, func(t *testing.T) {
			s := newEmbedded(t)
			defer s.zoo.Close()
			play(t, s)
		})
	})
}

// embedded is a ZooKeeper in this process.
type embedded struct {
	t   *testing.T
	zoo *devzookeeper.Server
	log *slog.Logger
}

// bubble runs a test in virtual time beside an embedded store.
func bubble(t *testing.T, f func(t *testing.T, s *embedded)) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.zoo.Close()
		f(t, s)
	})
}

func newEmbedded(t *testing.T) *embedded {
	return &embedded{t: t, zoo: devzookeeper.New(),
		log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func (s *embedded) Virtual() bool { return true }
func (s *embedded) Stop()         { s.zoo.Stop() }
func (s *embedded) Start()        { s.zoo.Start() }

func (s *embedded) Connect() electiontest.Link {
	way := s.zoo.Way(devzookeeper.Weather{})
	return &embeddedLink{Conn: s.connect(onzk.Config{Dial: way.Dial}), way: way, store: s}
}

// addresses need not be resolved.
var addresses = []string{"10.0.0.1:2181", "10.0.0.2:2181"}

// connect connects to this ZooKeeper.
func (s *embedded) connect(cfg onzk.Config) *onzk.Conn {
	s.t.Helper()
	if cfg.Logger = s.log; cfg.Servers == nil {
		cfg.Servers = addresses
	}
	conn, err := onzk.Connect(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// nominate takes part in the election demo.
func (s *embedded) nominate(over election.Connection, name string) *election.Election {
	s.t.Helper()
	return s.nominateIn("demo", over, name)
}

// nominateIn takes part in any election.
func (s *embedded) nominateIn(demo string, over election.Connection,
	name string) *election.Election {
	s.t.Helper()
	return s.stand(over, election.Config{Election: demo, Name: name})
}

// stand takes part in an election, in demo by default.
func (s *embedded) stand(over election.Connection, cfg election.Config) *election.Election {
	s.t.Helper()
	cfg.Election, cfg.Logger = cmp.Or(cfg.Election, "demo"), s.log
	e, err := election.New(over, cfg)
	must(s.t, err)
	_, err = e.Nominate(s.t.Context())
	must(s.t, err)
	return e
}

// becomes waits until a participant has a role.
func becomes(t *testing.T, e *election.Election, role election.Role) election.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := e.State().Wait(ctx, func(s election.Status) bool { return s.Role == role })
	if err != nil {
		t.Fatalf("it is never %v, but %v", role, e.State().Get())
	}
	return s
}

// embeddedLink is a connection that a scenario can break.
type embeddedLink struct {
	*onzk.Conn
	way   *devzookeeper.Way
	store *embedded
}

func (l *embeddedLink) End() {
	session, _ := l.Credentials()
	l.store.zoo.End(session)
}

func (l *embeddedLink) Cut()  { l.way.Sever() }
func (l *embeddedLink) Mend() { l.way.Mend(true) }
