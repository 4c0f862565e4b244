package electiontest

import (
	"fmt"
	"sync"

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
