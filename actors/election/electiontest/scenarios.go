package electiontest

import (
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election"
)

func oneCandidate(sc *scenario) {
	p := sc.nominate("n1")
	s := p.leads()
	if s.What != election.Initial || s.Leader.Name != "n1" || s.Token == 0 ||
		s.Until.Before(time.Now()) {
		sc.t.Errorf(
			"it leads as %+v; want its first role, its own name, a token, and a lease that runs", s)
	}
	n := p.messageCount()
	p.waitFrom(n, "the lease is extended", func(s election.Status) bool {
		return s.What == election.Extended && s.Role == election.Leading
	})
	p.resigns()
	if q := sc.nominate("n2").leads(); q.Token <= s.Token {
		sc.t.Errorf("the next leader has token %d, not above %d", q.Token, s.Token)
	}
}

func leaderResigns(sc *scenario) {
	a, b := sc.pair()
	a.resigns()
	if s := b.leads(); s.What != election.RoleChanged {
		sc.t.Errorf("b leads by %v", s)
	}
}

func leaderCrashes(sc *scenario) {
	a, b := sc.pair()
	a.link.Cut()
	// participant.begin fails the test if a has not stopped when b begins.
	s := b.leads()
	if s.Token <= a.leads().Token {
		sc.t.Errorf("b has token %d, a had %d", s.Token, a.leads().Token)
	}
	a.hearsItsEnd()
}

func absentAtStart(sc *scenario) {
	sc.store.Stop()
	a, b := sc.nominate("a"), sc.nominate("b")
	f := sc.follow("f")
	for _, p := range []*participant{a, b, f} {
		p.wait("waiting, and why", func(s election.Status) bool {
			return s.What == election.Waiting && s.Reason != ""
		})
	}
	sc.store.Start()
	sc.oneLeads(a, b)
	f.wait("who leads", func(s election.Status) bool {
		return s.Role == election.Observing && s.Leader.ID != ""
	})
}

// oneLeads waits until one of them leads and all others know it, and returns it.
func (sc *scenario) oneLeads(participants ...*participant) *participant {
	sc.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var leader *participant
		agree := true
		for _, p := range participants {
			s := p.e.State().Get()
			if s.Role == election.Leading {
				leader = p
			}
		}
		for _, p := range participants {
			s := p.e.State().Get()
			agree = agree && leader != nil && s.Leader.Name == leader.name
		}
		if agree {
			return leader
		}
		if time.Now().After(deadline) {
			for _, p := range participants {
				sc.t.Logf("%s: %v", p.name, p.messages())
			}
			sc.t.Fatalf("no one leader that all know within %v", patience)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func storeStops(sc *scenario) {
	a, b := sc.pair()
	sc.store.Stop()
	for _, p := range []*participant{a, b} {
		p.wait("its lease is over, and why", func(s election.Status) bool {
			return s.Role == election.Uncertain && s.Reason != ""
		})
	}
	sc.store.Start()
	// Their sessions may have been kept or not: those that were lost are told so, and come anew.
	c := sc.nominate("c")
	sc.someoneLeads(a, b, c)
	for _, p := range []*participant{a, b} {
		if s := p.e.State().Get(); s.Role == election.Out &&
			!errors.Is(s.Err, election.ErrSessionLost) {
			sc.t.Errorf("%s was told %v", p.name, s)
		}
	}
}

// someoneLeads waits until one of those that are still in leads.
func (sc *scenario) someoneLeads(participants ...*participant) *participant {
	sc.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		for _, p := range participants {
			if p.e.State().Get().Role == election.Leading {
				return p
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, p := range participants {
		sc.t.Logf("%s: %v", p.name, p.messages())
	}
	sc.t.Fatalf("nobody leads within %v", patience)
	return nil
}

func drainFirst(sc *scenario) {
	a, b := sc.pair(slowly(2 * time.Second))
	begin := time.Now()
	a.e.Resign()
	b.leads() // participant.begin fails the test if a still works
	if took := time.Since(begin); took < 2*time.Second {
		sc.t.Errorf("b leads %v after a was told to stop, which takes a 2s", took)
	}
	a.wait("draining", func(s election.Status) bool { return s.Role == election.Draining })
	a.ends()
}

func drainByHand(sc *scenario) {
	a, b := sc.pair(duty(nil))
	if err := b.e.HandOver(sc.t.Context(), "b"); err != nil {
		sc.t.Fatal(err)
	}
	a.wait("draining", func(s election.Status) bool { return s.Role == election.Draining })
	time.Sleep(time.Second)
	if s := b.e.State().Get(); s.Role == election.Leading {
		sc.t.Errorf("b leads before a said that it has stopped: %v", s)
	}
	a.e.Drained()
	b.leads()
	a.followsSomeone()
}

func resignAnytime(sc *scenario) {
	early := sc.newParticipant("early")
	early.e.Resign()
	early.run(early.e.Nominate)
	early.resigns()
	if _, err := early.e.Nominate(sc.t.Context()); !errors.Is(err, election.ErrStarted) {
		sc.t.Errorf("nominated twice: %v", err)
	}
	link := sc.connect()
	for i := range 20 {
		p := sc.nominate(fmt.Sprintf("p%d", i), over(link))
		time.Sleep(time.Duration(i) * 500 * time.Microsecond)
		p.e.Resign()
		p.resigns()
		p.e.Resign()
	}
	// Nothing of them is left.
	last := sc.nominate("last")
	last.leads()
	list, err := last.e.Candidates(sc.t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "last" {
		sc.t.Errorf("candidates: %v, %v; want only the last one", list, err)
	}
}

func endForEveryone(sc *scenario) {
	a, b := sc.pair()
	f := sc.follow("f")
	f.wait("who leads", func(s election.Status) bool { return s.Leader.Name == "a" })
	if err := b.e.End(sc.t.Context()); err != nil {
		sc.t.Fatal(err)
	}
	if err := b.e.End(sc.t.Context()); err != nil {
		sc.t.Errorf("ended twice: %v", err)
	}
	late := sc.nominate("late")
	for _, p := range []*participant{a, b, f, late} {
		if s := p.ends(); !s.Ended || s.Deleted || s.Err != nil {
			sc.t.Errorf("%s was told %v (%+v)", p.name, s, s)
		}
	}
	a.wait("draining", func(s election.Status) bool { return s.Role == election.Draining })
	if err := sc.newParticipant("x").e.Delete(sc.t.Context()); err != nil {
		sc.t.Fatal(err)
	}
	sc.nominate("anew").leads()
}

// closedWhilePending: the resignation could not be written, the store is back, and the program ends
// before the next attempt.
func closedWhilePending(sc *scenario) {
	a, b := sc.pair()
	a.link.Cut()
	a.e.Resign()
	a.ends()
	a.link.Mend()
	begin := time.Now()
	a.link.Close()
	b.leads()
	// Otherwise it is the lock-delay at least: 10 s on Consul, and the session's timeout on
	// ZooKeeper.
	if took := time.Since(begin); took > 5*time.Second {
		sc.t.Errorf("b leads %v after the connection of a leader that had resigned was closed",
			took)
	}
}

// deletedUnheard: what stands for a leader that cannot hear of its end must not go with the
// election.
func deletedUnheard(sc *scenario) {
	a, b := sc.pair()
	a.link.Cut()
	a.link.End()
	if err := b.e.Delete(sc.t.Context()); err != nil {
		sc.t.Fatal(err)
	}
	if s := b.ends(); !s.Deleted || s.Err != nil {
		sc.t.Errorf("b was told %v", s)
	}
	if s := a.e.State().Get(); s.Role == election.Leading {
		sc.t.Error("the election is deleted, and a is at it")
	}
	if store, ok := sc.store.(Restorer); ok {
		store.Restore()
	}
	// participant.begin fails the test if a has not stopped when the next one begins.
	sc.nominate("c").leads()
	a.wait("no longer leading", func(s election.Status) bool {
		return s.Role == election.Uncertain
	})
	a.link.Mend()
	// Both are so, and a hears one of them first.
	if s := a.ends(); !errors.Is(s.Err, election.ErrSessionLost) && !s.Deleted {
		sc.t.Errorf("a came back and was told %v", s)
	}
}

func manyElections(sc *scenario) {
	link, other := sc.connect(), sc.connect()
	var all []*participant
	for i := range 30 {
		name := func(p *participant) { p.cfg.Election = fmt.Sprintf("resource-%d", i) }
		all = append(all, sc.nominate(fmt.Sprintf("a%d", i), over(link), name, quiet()))
		all[2*i].leads()
		all = append(all, sc.nominate(fmt.Sprintf("b%d", i), over(other), name, quiet()))
	}
	for i := range 30 {
		all[2*i+1].followsSomeone()
		if i%3 == 0 {
			all[2*i].e.Resign()
		}
	}
	for i := range 30 {
		if i%3 == 0 {
			all[2*i+1].leads()
		} else if s := all[2*i].e.State().Get(); s.Role != election.Leading {
			sc.t.Errorf("the other elections are touched: %v", s)
		}
	}
}

// closedWhileLeading: the connection is closed under a leader that has not stopped yet, and under
// one that never says that it has.
func closedWhileLeading(sc *scenario) {
	a, b := sc.pair(slowly(3 * time.Second))
	a.link.Close()
	b.leads() // participant.begin fails the test if a still works
	if s := a.ends(); !errors.Is(s.Err, election.ErrClosed) {
		sc.t.Errorf("a was told %v", s)
	}
	b.resigns()
	c := sc.nominate("c", duty(nil))
	c.leads()
	d := sc.nominate("d")
	d.followsSomeone()
	until := c.e.State().Get().Until
	c.link.Close()
	d.leads()
	if early := time.Until(until); early > 0 {
		sc.t.Errorf("d leads %v before the lease of c is over, and c has not said that it has "+
			"stopped", early)
	}
}
