package electiontest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
)

func deleteWhileManyJoin(sc *scenario) {
	running, joining, connections := 500, 500, 10
	if sc.store.Virtual() || racing {
		running, joining = 50, 50
	}
	links := make([]Link, connections)
	for i := range links {
		links[i] = sc.connect()
	}
	first := sc.nominate("first", quiet())
	first.leads()
	run := make([]*participant, running)
	for i := range run {
		run[i] = sc.nominate(fmt.Sprintf("run%d", i), over(links[i%connections]), quiet())
	}
	for _, p := range run {
		p.followsSomeone()
	}
	list, err := first.e.Candidates(sc.t.Context())
	if err != nil || len(list) != running+1 {
		sc.t.Errorf("there are %d candidates (%v), want %d", len(list), err, running+1)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := sc.newParticipant("operator").e.Delete(sc.t.Context()); err != nil {
			sc.t.Errorf("delete: %v", err)
		}
	})
	join := make([]*participant, joining)
	for i := range join {
		join[i] = sc.nominate(fmt.Sprintf("join%d", i), over(links[i%connections]), quiet())
	}
	for _, p := range append(run, first) {
		if s := p.ends(); !s.Deleted || s.Err != nil {
			sc.t.Errorf("%s was told %v", p.name, s)
		}
	}
	group.Wait()
	// Those that came before it was gone were told the same; those that came later hold a new one,
	// with one leader.
	deleted := 0
	for _, p := range join {
		s := p.wait("deleted, or a leader", func(s election.Status) bool {
			return s.Role == election.Out || s.Role == election.Leading ||
				s.Role == election.Following && s.Leader.ID != ""
		})
		if s.Role == election.Out {
			if deleted++; !s.Deleted || s.Err != nil {
				sc.t.Errorf("%s was told %v", p.name, s)
			}
		}
	}
	sc.t.Logf("of %d who joined meanwhile %d were told that it was deleted", joining, deleted)
	if err := sc.newParticipant("operator").e.Delete(sc.t.Context()); err != nil {
		sc.t.Errorf("delete again: %v", err)
	}
	for _, p := range join {
		if s := p.ends(); !s.Deleted || s.Err != nil {
			sc.t.Errorf("%s was told %v", p.name, s)
		}
	}
}

func handOver(sc *scenario) {
	a, b := sc.pair()
	c := sc.nominate("c")
	c.followsSomeone()
	if err := b.e.HandOver(sc.t.Context(), "nobody"); !errors.Is(err, election.ErrNoCandidate) {
		sc.t.Errorf("handed over to nobody: %v", err)
	}
	if err := a.e.HandOver(sc.t.Context(), "c"); err != nil {
		sc.t.Fatal(err)
	}
	c.leads()
	a.wait("draining", func(s election.Status) bool { return s.Role == election.Draining })
	a.wait("following c", func(s election.Status) bool {
		return s.Role == election.Following && s.Leader.Name == "c"
	})
	b.wait("following c", func(s election.Status) bool {
		return s.Role == election.Following && s.Leader.Name == "c"
	})
	for _, s := range b.messages() {
		if s.Role == election.Leading {
			sc.t.Errorf("b led: %v", s)
		}
	}
	// The order is spent: the next one is again who is first in the line.
	c.resigns()
	a.waitFrom(a.messageCount()-1, "leading", func(s election.Status) bool {
		return s.Role == election.Leading
	})
}

func handOverToDead(sc *scenario) {
	a, b := sc.pair()
	c := sc.nominate("c")
	c.followsSomeone()
	c.link.Cut()
	if err := a.e.HandOver(sc.t.Context(), "c"); err != nil {
		sc.t.Fatal(err)
	}
	begin := time.Now()
	a.wait("draining", func(s election.Status) bool { return s.Role == election.Draining })
	a.wait("following, or leading again", func(s election.Status) bool {
		return s.Role == election.Following
	})
	n := sc.someoneLeads(b, a)
	if took := time.Since(begin); sc.store.Virtual() && took > 15*time.Second {
		sc.t.Errorf("%s leads %v after the hand-over to a dead candidate", n.name, took)
	}
}

func priorities(sc *scenario) {
	low := sc.nominate("low")
	low.leads()
	middle := sc.nominate("middle", priority(5))
	middle.followsSomeone()
	high := sc.nominate("high", priority(10))
	high.followsSomeone()
	equal := sc.nominate("equal", priority(10))
	equal.followsSomeone()
	if s := low.e.State().Get(); s.Role != election.Leading {
		sc.t.Errorf("a higher priority took the leadership: %v", s)
	}
	list, err := low.e.Candidates(sc.t.Context())
	if err != nil || len(list) != 4 {
		sc.t.Fatalf("candidates: %v, %v", list, err)
	}
	low.resigns()
	high.leads()
	high.resigns()
	equal.leads()
	equal.resigns()
	middle.leads()
}

func preempts(sc *scenario) {
	low := sc.nominate("low", slowly(time.Second))
	low.leads()
	middle := sc.nominate("middle", priority(5))
	middle.followsSomeone()
	high := sc.nominate("high", priority(10), preempting())
	high.leads()
	low.wait("following high", func(s election.Status) bool {
		return s.Role == election.Following && s.Leader.Name == "high"
	})
	equal := sc.nominate("equal", priority(10), preempting())
	equal.followsSomeone()
	time.Sleep(time.Second)
	if s := high.e.State().Get(); s.Role != election.Leading {
		sc.t.Errorf("an equal priority took the leadership: %v", s)
	}
}

func follows(sc *scenario) {
	f := sc.follow("f")
	f.wait("nobody leads", func(s election.Status) bool {
		return s.What == election.Initial && s.Role == election.Observing && s.Leader.ID == ""
	})
	a := sc.nominate("a", func(p *participant) { p.cfg.Address = "a.example:1" })
	token := a.leads().Token
	f.wait("a leads", func(s election.Status) bool {
		return s.What == election.NewLeader && s.Leader.Name == "a" &&
			s.Leader.Address == "a.example:1" && s.Token == token
	})
	a.resigns()
	f.wait("nobody leads any more", func(s election.Status) bool {
		return s.What == election.NoLeader && s.Leader.ID == ""
	})
	sc.nominate("b").leads()
	f.wait("b leads", func(s election.Status) bool { return s.Leader.Name == "b" })
	f.resigns()
}
