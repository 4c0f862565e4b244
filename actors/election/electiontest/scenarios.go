package electiontest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/election"
)

func oneCandidate(g *game) {
	p := g.nominate("n1")
	s := p.leads()
	if s.What != election.Initial || s.Leader.Name != "n1" || s.Token == 0 ||
		s.Until.Before(time.Now()) {
		g.t.Errorf(
			"it leads as %+v; want its first role, its own name, a token, and a lease that runs", s)
	}
	n := p.seen()
	p.waitFrom(n, "the lease is extended", func(s election.Status) bool {
		return s.What == election.Extended && s.Role == election.Leading
	})
	p.resigns()
	if q := g.nominate("n2").leads(); q.Token <= s.Token {
		g.t.Errorf("the next leader has token %d, not above %d", q.Token, s.Token)
	}
}

func leaderResigns(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	a.resigns()
	if s := b.leads(); s.What != election.RoleChanged {
		g.t.Errorf("b leads by %v", s)
	}
}

func middleResigns(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	c := g.nominate("c")
	c.followsSomeone()
	b.resigns()
	for _, s := range b.messages() {
		if s.Role == election.Leading {
			g.t.Errorf("b led: %v", s)
		}
	}
	a.resigns()
	c.leads()
}

func leaderCrashes(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	a.link.Cut()
	// The referee sees to it that a has stopped when b begins.
	s := b.leads()
	if s.Token <= a.leads().Token {
		g.t.Errorf("b has token %d, a had %d", s.Token, a.leads().Token)
	}
	a.wait("no longer leading", func(s election.Status) bool {
		return s.Role == election.Uncertain
	})
	a.link.Mend()
	if s := a.ends(); !errors.Is(s.Err, election.ErrSessionLost) {
		g.t.Errorf("a came back and was told %v", s)
	}
}

func absentAtStart(g *game) {
	g.store.Stop()
	a, b := g.nominate("a"), g.nominate("b")
	f := g.follow("f")
	for _, p := range []*player{a, b, f} {
		p.wait("waiting, and why", func(s election.Status) bool {
			return s.What == election.Waiting && s.Reason != ""
		})
	}
	g.store.Start()
	g.oneLeads(a, b)
	f.wait("who leads", func(s election.Status) bool {
		return s.Role == election.Observing && s.Leader.ID != ""
	})
}

// oneLeads waits until one of them leads and all others know it, and returns it.
func (g *game) oneLeads(players ...*player) *player {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var leader *player
		agree := true
		for _, p := range players {
			s := p.e.Status()
			if s.Role == election.Leading {
				leader = p
			}
		}
		for _, p := range players {
			s := p.e.Status()
			agree = agree && leader != nil && s.Leader.Name == leader.name
		}
		if agree {
			return leader
		}
		if time.Now().After(deadline) {
			for _, p := range players {
				g.t.Logf("%s: %v", p.name, p.messages())
			}
			g.t.Fatalf("no one leader that all know within %v", patience)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func storeStops(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	g.store.Stop()
	a.wait("its lease is over", func(s election.Status) bool {
		return s.Role == election.Uncertain
	})
	b.wait("its lease is over", func(s election.Status) bool {
		return s.Role == election.Uncertain
	})
	g.store.Start()
	// Their sessions may have been kept or not: those that were lost are told so, and come anew.
	c := g.nominate("c")
	g.someoneLeads(a, b, c)
	for _, p := range []*player{a, b} {
		if s := p.e.Status(); s.Role == election.Out && !errors.Is(s.Err, election.ErrSessionLost) {
			g.t.Errorf("%s was told %v", p.name, s)
		}
	}
}

// someoneLeads waits until one of those that are still in leads.
func (g *game) someoneLeads(players ...*player) *player {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		for _, p := range players {
			if p.e.Status().Role == election.Leading {
				return p
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, p := range players {
		g.t.Logf("%s: %v", p.name, p.messages())
	}
	g.t.Fatalf("nobody leads within %v", patience)
	return nil
}

func drainFirst(g *game) {
	a := g.nominate("a", slowly(2*time.Second))
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	begin := time.Now()
	a.e.Resign()
	b.leads() // the referee sees to it that a has stopped
	if took := time.Since(begin); took < 2*time.Second {
		g.t.Errorf("b leads %v after a was told to stop, which takes a 2s", took)
	}
	a.wait("draining", func(s election.Status) bool { return s.Role == election.Draining })
	a.ends()
}

func drainByHand(g *game) {
	a := g.nominate("a", duty(nil))
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	if err := b.e.HandOver(g.t.Context(), "b"); err != nil {
		g.t.Fatal(err)
	}
	a.wait("draining", func(s election.Status) bool { return s.Role == election.Draining })
	time.Sleep(time.Second)
	if s := b.e.Status(); s.Role == election.Leading {
		g.t.Errorf("b leads before a said that it has stopped: %v", s)
	}
	a.e.Drained()
	b.leads()
	a.followsSomeone()
}

func resignAnytime(g *game) {
	early := g.player("early")
	early.e.Resign()
	early.run(early.e.Nominate)
	early.resigns()
	if _, err := early.e.Nominate(g.t.Context()); !errors.Is(err, election.ErrStarted) {
		g.t.Errorf("nominated twice: %v", err)
	}
	link := g.connect()
	for i := range 20 {
		p := g.nominate(fmt.Sprintf("p%d", i), over(link))
		time.Sleep(time.Duration(i) * 500 * time.Microsecond)
		p.e.Resign()
		p.resigns()
		p.e.Resign()
	}
	// Nothing of them is left.
	last := g.nominate("last")
	last.leads()
	list, err := last.e.Candidates(g.t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "last" {
		g.t.Errorf("candidates: %v, %v; want only the last one", list, err)
	}
}

func endForEveryone(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	f := g.follow("f")
	f.wait("who leads", func(s election.Status) bool { return s.Leader.Name == "a" })
	if err := b.e.End(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	if err := b.e.End(g.t.Context()); err != nil {
		g.t.Errorf("ended twice: %v", err)
	}
	late := g.nominate("late")
	for _, p := range []*player{a, b, f, late} {
		if s := p.ends(); !s.Ended || s.Deleted || s.Err != nil {
			g.t.Errorf("%s was told %v (%+v)", p.name, s, s)
		}
	}
	a.wait("draining", func(s election.Status) bool { return s.Role == election.Draining })
	if err := g.player("x").e.Delete(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	g.nominate("anew").leads()
}

func strangerDeletes(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	g.store.DeleteAsStranger(theElection)
	for _, p := range []*player{a, b} {
		if s := p.ends(); !s.Deleted || s.Err != nil {
			g.t.Errorf("%s was told %v (%+v)", p.name, s, s)
		}
	}
	g.nominate("c").leads()
}

func dutyReturns(g *game) {
	failed := errors.New("the duty failed")
	a := g.nominate("a", duty(func(context.Context, election.Status) error { return failed }))
	if s := a.ends(); !errors.Is(s.Err, failed) {
		g.t.Errorf("a's duty failed, and it was told %v", s)
	}
	b := g.nominate("b", duty(func(context.Context, election.Status) error { return nil }))
	if s := b.ends(); !s.Resigned || s.Err != nil {
		g.t.Errorf("b's duty was done, and it was told %v", s)
	}
	c := g.nominate("c", quiet(), duty(func(context.Context, election.Status) error {
		panic("oh")
	}))
	if s := c.ends(); s.Err == nil {
		g.t.Errorf("c's duty panicked, and it was told %v", s)
	}
	d := g.nominate("d", quiet(), duty(func(context.Context, election.Status) error {
		runtime.Goexit()
		return nil
	}))
	if s := d.ends(); s.Err == nil || !strings.Contains(s.Err.Error(), "Goexit") {
		g.t.Errorf("d's duty left by runtime.Goexit, and it was told %v", s)
	}
	g.nominate("e").leads()
}

// closedWhilePending: the resignation could not be written, the store is back, and the program ends
// before the next attempt.
func closedWhilePending(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
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
		g.t.Errorf("b leads %v after the connection of a leader that had resigned was closed", took)
	}
}

// restored: Consul keeps lock-delays in memory, and has none after a restore. ZooKeeper has nothing
// of that kind.
func restored(g *game) {
	store, ok := g.store.(Restorer)
	if !ok {
		return
	}
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	a.link.Cut()
	a.link.End()
	store.Restore()
	c := g.nominate("c") // who has never seen a
	// The referee sees to it that a has stopped when the next one begins.
	g.someoneLeads(b, c)
	a.wait("no longer leading", func(s election.Status) bool {
		return s.Role == election.Uncertain
	})
	a.link.Mend()
	if s := a.ends(); !errors.Is(s.Err, election.ErrSessionLost) {
		g.t.Errorf("a came back and was told %v", s)
	}
}

// deletedUnheard: what stands for a leader that cannot hear of its end must not go with the
// election.
func deletedUnheard(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b")
	b.followsSomeone()
	a.link.Cut()
	a.link.End()
	if err := b.e.Delete(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	if s := b.ends(); !s.Deleted || s.Err != nil {
		g.t.Errorf("b was told %v", s)
	}
	if s := a.e.Status(); s.Role == election.Leading {
		g.t.Error("the election is deleted, and a is at it")
	}
	if store, ok := g.store.(Restorer); ok {
		store.Restore()
	}
	// The referee sees to it that a has stopped when the next one begins.
	g.nominate("c").leads()
	a.wait("no longer leading", func(s election.Status) bool {
		return s.Role == election.Uncertain
	})
	a.link.Mend()
	// Both are so, and a hears one of them first.
	if s := a.ends(); !errors.Is(s.Err, election.ErrSessionLost) && !s.Deleted {
		g.t.Errorf("a came back and was told %v", s)
	}
}

func manyElections(g *game) {
	link, other := g.connect(), g.connect()
	var all []*player
	for i := range 30 {
		name := func(p *player) { p.cfg.Election = fmt.Sprintf("resource-%d", i) }
		all = append(all, g.nominate(fmt.Sprintf("a%d", i), over(link), name, quiet()))
		all[2*i].leads()
		all = append(all, g.nominate(fmt.Sprintf("b%d", i), over(other), name, quiet()))
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
		} else if s := all[2*i].e.Status(); s.Role != election.Leading {
			g.t.Errorf("the other elections are touched: %v", s)
		}
	}
}

func nobodyReads(g *game) {
	link := g.connect()
	e, err := election.New(link, election.Config{Election: theElection, Name: "deaf",
		Logger: g.log})
	if err != nil {
		g.t.Fatal(err)
	}
	statuses, err := e.Nominate(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	wait := func(role election.Role) {
		g.t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := e.State().Wait(ctx, func(s election.Status) bool {
			return s.Role == role
		}); err != nil {
			g.t.Fatalf("not %v: %v", role, e.Status())
		}
	}
	wait(election.Leading)
	b := g.nominate("b")
	b.followsSomeone()
	changes := 1
	for range 20 { // each time it makes way and leads again
		n := b.seen()
		if err := e.HandOver(g.t.Context(), "b"); err != nil {
			g.t.Fatal(err)
		}
		wait(election.Draining)
		e.Drained()
		b.waitFrom(n, "leading", func(s election.Status) bool { return s.Role == election.Leading })
		wait(election.Following)
		n = b.seen()
		if err := e.HandOver(g.t.Context(), "deaf"); err != nil {
			g.t.Fatal(err)
		}
		b.waitFrom(n, "following", func(s election.Status) bool {
			return s.Role == election.Following
		})
		wait(election.Leading)
		changes += 3
	}
	e.Resign()
	select {
	case <-e.Done():
	case <-time.After(patience):
		g.t.Fatalf("it does not end without a reader: %v", e.Status())
	}
	told, last := 0, election.Status{}
	for s := range statuses {
		told += s.Missed
		if s.What == election.RoleChanged || s.What == election.Initial {
			told++
		}
		last = s
	}
	// the way out may be told as Draining first
	if changes++; told != changes && told != changes+1 || last.Role != election.Out {
		g.t.Errorf("the role changed %d times, and the messages, with what was missed, tell of %d; the last one is %v",
			changes, told, last)
	}
}

func closedConnection(g *game) {
	a := g.nominate("a")
	a.leads()
	b := g.nominate("b", over(a.link))
	b.followsSomeone()
	a.resigns()
	b.leads()
	b.link.Close()
	if s := b.ends(); !errors.Is(s.Err, election.ErrClosed) {
		g.t.Errorf("b was told %v", s)
	}
}
