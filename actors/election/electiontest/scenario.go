package electiontest

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// patience bounds every wait for something that should happen at once. No test depends on its
// being short.
const patience = 4 * time.Minute

// scenario is one run of a scenario: its store, its participants, and its judge.
type scenario struct {
	t     *testing.T
	store Store
	log   *slog.Logger

	mu           sync.Mutex
	participants []*participant
	links        []Link
	judge        *Judge

	cast   map[string]*participant // of a script
	tokens []uint64                // that a script has said
	clock  time.Time
}

func newScenario(t *testing.T, s Store) *scenario {
	return &scenario{
		t: t, store: s, cast: map[string]*participant{}, judge: NewJudge(),
		log: slog.New(slog.NewTextHandler(t.Output(),
			&slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

func (sc *scenario) connect() Link {
	l := sc.store.Connect()
	sc.mu.Lock()
	sc.links = append(sc.links, l)
	sc.mu.Unlock()
	return l
}

const defaultElection = "demo"

// newParticipant makes a participant. It takes part once run is called.
func (sc *scenario) newParticipant(name string, settings func(*participant)) *participant {
	sc.t.Helper()
	p := &participant{sc: sc, name: name, done: make(chan struct{}), changed: make(chan struct{}),
		ran: make(chan struct{}, 1)}
	p.cfg = election.Config{Election: defaultElection, Name: name, Logger: sc.log, Lead: p.lead}
	settings(p)
	if p.link == nil {
		p.link = sc.connect()
	}
	e, err := election.New(sc.judge.Record(p.link), p.cfg)
	if err != nil {
		sc.t.Fatal(err)
	}
	p.e = e
	return p
}

// finish ends all participants and connections, and checks what they were told.
func (sc *scenario) finish() {
	for _, p := range sc.participants {
		p.resign()
	}
	for _, l := range sc.links {
		l.Close()
	}
	for _, p := range sc.participants {
		select {
		case <-p.done:
		case <-time.After(patience):
			sc.t.Errorf("%s: the channel is still open at the end; it was told %v", p.name,
				p.messages())
			continue
		}
		<-p.e.Done()
		p.judge()
	}
	if err := sc.judge.Verdict(patience); err != nil {
		sc.t.Error(err)
	}
}
