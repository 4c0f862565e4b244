package electiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// participant is one participant of an election, and all messages that it has received.
type participant struct {
	sc   *scenario
	name string
	cfg  election.Config
	link Link
	e    *election.Election
	done chan struct{} // the channel is closed

	mu        sync.Mutex
	log       []election.Status
	changed   chan struct{}
	stopTakes time.Duration // how long its duty takes to stop
	until     time.Time     // when its lease is over, of a leader by hand
	heard     int           // the messages that a script has waited for
	takes     time.Duration // how long a run of its schedule takes
	ran       chan struct{} // cap 1: a run has begun
}

func (p *participant) run(begin func(context.Context) (<-chan election.Status, error)) error {
	statuses, err := begin(p.sc.t.Context())
	if err != nil {
		return err
	}
	p.sc.mu.Lock()
	p.sc.participants = append(p.sc.participants, p)
	p.sc.mu.Unlock()
	go func() {
		defer close(p.done)
		for s := range statuses {
			p.mu.Lock()
			p.log = append(p.log, s)
			close(p.changed)
			p.changed = make(chan struct{})
			p.mu.Unlock()
			if p.cfg.Lead == nil && s.Role == election.Leading {
				p.begin(s)
			}
		}
	}()
	return nil
}

// resign says besides that a duty by hand has stopped.
func (p *participant) resign() {
	if p.cfg.Lead == nil {
		p.end()
	}
	p.e.Resign()
}

// lead is the duty of most participants. It records who is working.
func (p *participant) lead(ctx context.Context, s election.Status) error {
	p.begin(s)
	defer p.end()
	if !s.Period.IsZero() {
		p.sc.runs.Ran(p.cfg.Election, s.Period)
		run, cancel := context.WithTimeout(ctx, p.takes)
		defer cancel()
		ctx = run
		select {
		case p.ran <- struct{}{}:
		default:
		}
	}
	<-ctx.Done()
	time.Sleep(p.stopTakes)
	return nil
}

// begin notes that a duty is under way. One by hand stops with its lease.
func (p *participant) begin(s election.Status) {
	sc, name, token := p.sc, p.cfg.Election, s.Token
	sc.mu.Lock()
	defer sc.mu.Unlock()
	p.until = s.Until
	if other := sc.working[name]; other != nil && other != p &&
		(other.cfg.Lead != nil || time.Now().Before(other.until)) {
		sc.faults = append(sc.faults,
			fmt.Sprintf("two leaders of %s: %s begins with token %d while %s is at it", name,
				p.name, token, other.name))
	}
	if token == 0 || token < sc.lastTokens[name] {
		sc.faults = append(sc.faults, fmt.Sprintf("the token of %s fell from %d to %d at %s", name,
			sc.lastTokens[name], token, p.name))
	}
	sc.working[name], sc.lastTokens[name] = p, token
}

func (p *participant) end() {
	p.sc.mu.Lock()
	defer p.sc.mu.Unlock()
	if p.sc.working[p.cfg.Election] == p {
		delete(p.sc.working, p.cfg.Election)
	}
}

// messages returns the messages so far.
func (p *participant) messages() []election.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// wait waits for a message that ok accepts, from the first one on, and returns it.
func (p *participant) wait(what string, ok func(election.Status) bool) election.Status {
	p.sc.t.Helper()
	s, _ := p.waitFrom(0, what, ok)
	return s
}

// waitFrom is wait from message n on. It returns the number of the message, too.
func (p *participant) waitFrom(n int, what string,
	ok func(election.Status) bool) (election.Status, int) {
	p.sc.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		log, changed := p.log, p.changed
		p.mu.Unlock()
		for ; n < len(log); n++ {
			if ok(log[n]) {
				return log[n], n
			}
		}
		select {
		case <-changed:
		case <-deadline.C:
			p.sc.t.Fatalf("%s: no message within %v that says: %s; there were %v", p.name, patience,
				what, log)
		}
	}
}

func (p *participant) leads() election.Status {
	p.sc.t.Helper()
	return p.wait("leading", func(s election.Status) bool { return s.Role == election.Leading })
}

func (p *participant) followsSomeone() {
	p.sc.t.Helper()
	p.wait("following", func(s election.Status) bool {
		return s.Role == election.Following && s.Leader.ID != ""
	})
}

// ends waits for the last message and the closed channel.
func (p *participant) ends() election.Status {
	p.sc.t.Helper()
	last := p.wait("out", func(s election.Status) bool { return s.Role == election.Out })
	p.closed()
	return last
}

func (p *participant) closed() {
	p.sc.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.sc.t.Fatalf("%s: the channel is not closed %v after the last message", p.name, patience)
	}
}

// judge checks the messages against the rules of package election's documentation.
func (p *participant) judge() {
	t, log := p.sc.t, p.messages()
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
	} else if err := log[len(log)-1].Err; err != nil && !errors.Is(err, election.ErrSessionLost) &&
		!errors.Is(err, election.ErrClosed) {
		t.Errorf("%s ended by %v", p.name, err)
	}
}
