package electiontest

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	stopTakes time.Duration   // how long its duty takes to stop
	duty      election.Status // of a leader by hand that has not said that it has stopped
	heard     int             // the messages that a script has waited for
	takes     time.Duration   // how long a run of its schedule takes
	ran       chan struct{}   // cap 1: a run has begun
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
			if p.cfg.Lead == nil && s.Role == election.Leading {
				p.duty = s
				p.work(s)
			}
			until := p.duty.Until
			p.mu.Unlock()
			if s.Role == election.Out { // one by hand may work until its lease is over
				time.Sleep(time.Until(until.Add(-100 * time.Millisecond)))
				p.stopped()
			}
		}
	}()
	return nil
}

// resign says besides that a duty by hand has stopped.
func (p *participant) resign() {
	if p.cfg.Lead == nil {
		p.stopped()
	}
	p.e.Resign()
}

// stopped ends a duty by hand.
func (p *participant) stopped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.duty.Until) {
		p.work(p.duty)
	}
	p.duty = election.Status{}
}

// work tells the judge that the duty is under way.
func (p *participant) work(s election.Status) {
	p.sc.judge.Work(p.cfg.Election, s.Self.ID, s.Token)
}

// lead is the duty of most participants.
func (p *participant) lead(ctx context.Context, s election.Status) error {
	p.work(s)
	defer p.work(s)
	if !s.Period.IsZero() {
		p.sc.judge.Ran(p.cfg.Election, s.Period)
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

// messages returns the messages so far.
func (p *participant) messages() []election.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// waitFrom waits for a message that ok accepts, from message n on, and returns it and its number.
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
		return
	}
	last := log[len(log)-1]
	if err := last.Err; err != nil && !errors.Is(err, election.ErrSessionLost) &&
		!errors.Is(err, election.ErrClosed) || errors.Is(err, election.ErrSessionLost) &&
		(last.Reason == "" || !strings.Contains(err.Error(), last.Reason)) {
		t.Errorf("%s ended by %v (%q)", p.name, err, last.Reason)
	}
}
