package electiontest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// patience is how long anything may take that is to happen at once. Nothing rests on its being
// short.
const patience = 4 * time.Minute

// game is one scenario under way.
type game struct {
	t     *testing.T
	store Store
	log   *slog.Logger

	mu     sync.Mutex
	all    []*player
	links  []Link
	duty   map[string]*player // election -> who is at it
	tokens map[string]uint64
	faults []string
}

func newGame(t *testing.T, s Store) *game {
	return &game{
		t: t, store: s, duty: map[string]*player{}, tokens: map[string]uint64{},
		log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

// player is one participant, and all that it was told.
type player struct {
	g    *game
	name string
	cfg  election.Config
	link Link
	e    *election.Election
	done chan struct{} // the channel is closed

	mu      sync.Mutex
	log     []election.Status
	changed chan struct{}
	slow    time.Duration // that its duty takes to stop
	until   chan struct{} // nil, or closed when its duty may stop
}

func (g *game) connect() Link {
	l := g.store.Connect()
	g.mu.Lock()
	g.links = append(g.links, l)
	g.mu.Unlock()
	return l
}

type option func(*player)

func priority(n int) option { return func(p *player) { p.cfg.Priority = n } }
func preempting() option    { return func(p *player) { p.cfg.Preempt = true } }
func over(l Link) option    { return func(p *player) { p.link = l } }
func quiet() option {
	return func(p *player) { p.cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil)) }
}
func slowly(d time.Duration) option { return func(p *player) { p.slow = d } }
func duty(f election.Lead) option   { return func(p *player) { p.cfg.Lead = f } }

const theElection = "demo"

// player makes a participant that takes no part yet.
func (g *game) player(name string, options ...option) *player {
	g.t.Helper()
	p := &player{g: g, name: name, done: make(chan struct{}), changed: make(chan struct{})}
	p.cfg = election.Config{Election: theElection, Name: name, Logger: g.log, Lead: p.lead}
	for _, o := range options {
		o(p)
	}
	if p.link == nil {
		p.link = g.connect()
	}
	e, err := election.New(p.link, p.cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	p.e = e
	return p
}

// nominate makes a candidate.
func (g *game) nominate(name string, options ...option) *player {
	g.t.Helper()
	p := g.player(name, options...)
	p.run(p.e.Nominate)
	return p
}

func (g *game) follow(name string, options ...option) *player {
	g.t.Helper()
	p := g.player(name, options...)
	p.run(p.e.Follow)
	return p
}

func (p *player) run(begin func(context.Context) (<-chan election.Status, error)) {
	p.g.t.Helper()
	statuses, err := begin(p.g.t.Context())
	if err != nil {
		p.g.t.Fatal(err)
	}
	p.g.mu.Lock()
	p.g.all = append(p.g.all, p)
	p.g.mu.Unlock()
	go func() {
		defer close(p.done)
		for s := range statuses {
			p.mu.Lock()
			p.log = append(p.log, s)
			close(p.changed)
			p.changed = make(chan struct{})
			p.mu.Unlock()
		}
	}()
}

// lead is the duty of most players: it notes who is at it.
func (p *player) lead(ctx context.Context, s election.Status) error {
	p.begin(s.Token)
	<-ctx.Done()
	time.Sleep(p.slow)
	if p.until != nil {
		<-p.until
	}
	p.end()
	return nil
}

func (p *player) begin(token uint64) {
	g, name := p.g, p.cfg.Election
	g.mu.Lock()
	defer g.mu.Unlock()
	if other := g.duty[name]; other != nil {
		g.faults = append(g.faults,
			fmt.Sprintf("two leaders of %s: %s begins with token %d while %s is at it", name,
				p.name, token, other.name))
	}
	if token == 0 || token < g.tokens[name] {
		g.faults = append(g.faults, fmt.Sprintf("the token of %s fell from %d to %d at %s", name,
			g.tokens[name], token, p.name))
	}
	g.duty[name], g.tokens[name] = p, token
}

func (p *player) end() {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	if p.g.duty[p.cfg.Election] == p {
		delete(p.g.duty, p.cfg.Election)
	}
}

// messages are those so far.
func (p *player) messages() []election.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// wait waits for a message that ok accepts, from the first one on, and returns it.
func (p *player) wait(what string, ok func(election.Status) bool) election.Status {
	p.g.t.Helper()
	return p.waitFrom(0, what, ok)
}

// waitFrom begins with message n.
func (p *player) waitFrom(n int, what string, ok func(election.Status) bool) election.Status {
	p.g.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		log, changed := p.log, p.changed
		p.mu.Unlock()
		for ; n < len(log); n++ {
			if ok(log[n]) {
				return log[n]
			}
		}
		select {
		case <-changed:
		case <-deadline.C:
			p.g.t.Fatalf("%s: no message within %v that says: %s; there were %v", p.name, patience,
				what, log)
		}
	}
}

// seen is how many messages there were.
func (p *player) seen() int { return len(p.messages()) }

func (p *player) leads() election.Status {
	p.g.t.Helper()
	return p.wait("leading", func(s election.Status) bool { return s.Role == election.Leading })
}

func (p *player) followsSomeone() {
	p.g.t.Helper()
	p.wait("following", func(s election.Status) bool {
		return s.Role == election.Following && s.Leader.ID != ""
	})
}

// ends waits for the last message and the closed channel.
func (p *player) ends() election.Status {
	p.g.t.Helper()
	last := p.wait("out", func(s election.Status) bool { return s.Role == election.Out })
	select {
	case <-p.done:
	case <-time.After(patience):
		p.g.t.Fatalf("%s: the channel is not closed %v after the last message", p.name, patience)
	}
	return last
}

func (p *player) resigns() election.Status {
	p.g.t.Helper()
	p.e.Resign()
	s := p.ends()
	if !s.Resigned || s.Err != nil {
		p.g.t.Errorf("%s resigned, and was told %v (resigned %v, %v)", p.name, s, s.Resigned, s.Err)
	}
	return s
}

// finish ends everything and judges.
func (g *game) finish() {
	for _, p := range g.all {
		p.e.Resign()
	}
	for _, l := range g.links {
		l.Close()
	}
	for _, p := range g.all {
		select {
		case <-p.done:
		case <-time.After(patience):
			g.t.Errorf("%s: the channel is still open at the end; it was told %v", p.name,
				p.messages())
			continue
		}
		<-p.e.Done()
		p.judge()
	}
	for _, f := range g.faults {
		g.t.Error(f)
	}
}

// judge holds what a participant was told to the rules of the package's documentation.
func (p *player) judge() {
	t, log := p.g.t, p.messages()
	said := false
	for i, s := range log {
		last := i == len(log)-1
		if (s.What == election.Over) != last || (s.Role == election.Out) != last {
			t.Errorf("%s: message %d of %d is %v; exactly the last one says that it is over",
				p.name, i+1, len(log), s)
		}
		if s.What != election.Waiting && !last && (s.What == election.Initial) == said {
			t.Errorf("%s: message %d is %v; the first role, and no other, is initial", p.name, i+1,
				s)
		}
		said = said || s.What == election.Initial
		if i == 0 {
			continue
		}
		was := log[i-1]
		if s.What == election.RoleChanged && s.Role == was.Role && s.Missed == 0 {
			t.Errorf("%s: message %d says that the role has changed, from %v to %v", p.name, i+1,
				was, s)
		}
		if s.What != election.RoleChanged && s.What != election.Initial &&
			s.What != election.Over && s.Role != was.Role {
			t.Errorf("%s: message %d changes the role without saying so: %v, then %v", p.name, i+1,
				was, s)
		}
	}
	if len(log) == 0 {
		t.Errorf("%s: the channel was closed without a word", p.name)
	}
}
