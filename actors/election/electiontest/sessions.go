package electiontest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/election"
)

func sessionsExpire(sc *scenario) {
	elections, rounds := sc.store.Expiries()
	sc.sessionsLost(elections, rounds, Link.Expire, "expired")
}

func sessionsEnd(sc *scenario) {
	elections, rounds := sc.store.Endings()
	reason := "before its time"
	if !sc.store.Virtual() {
		reason = "" // on a busy machine the leader may hear of it later than it could have expired
	}
	sc.sessionsLost(elections, rounds, Link.End, reason)
}

// sessionsLost takes leaders' sessions away, in many elections at once because that takes as long
// as a lease. There are two candidates in each. One that has lost its session joins again: on a busy
// machine that happens without our doing as well.
func (sc *scenario) sessionsLost(elections, rounds int, lose func(Link), reason string) {
	if sc.store.Virtual() || racing {
		// each costs the race detector as much as it does in real time
		elections = min(elections, 20)
	}
	var notices atomic.Int64
	var group sync.WaitGroup
	// Hundreds of clients that connect in the same instant, on a busy machine, are a fault of their
	// own.
	few := make(chan struct{}, 8)
	for i := range elections {
		group.Go(func() {
			few <- struct{}{}
			p := &pair{sc: sc, name: fmt.Sprintf("resource-%d", i), links: [2]Link{sc.connect(),
				sc.connect()}}
			p.leader()
			<-few
			for range rounds {
				leader := p.leader()
				if leader == nil {
					return
				}
				lose(leader.link)
				notices.Add(leader.lost(reason))
			}
		})
	}
	group.Wait()
	if want := int64(elections * rounds); notices.Load() != want {
		sc.t.Errorf("%d notices of %d sessions that leaders lost", notices.Load(), want)
	}
}

// lost counts the notices of a lost session that a participant got, and holds them to the reason.
func (p *participant) lost(reason string) (n int64) {
	select {
	case <-p.done:
	case <-time.After(patience):
		p.sc.t.Errorf("%s of %s was not told that its session was lost: %v", p.name,
			p.cfg.Election, p.messages())
	}
	for _, s := range p.messages() {
		if s.Role != election.Out {
			continue
		}
		n++
		if !errors.Is(s.Err, election.ErrSessionLost) || !strings.Contains(s.Reason, reason) ||
			!strings.Contains(s.Err.Error(), s.Reason) || s.Reason == "" {
			p.sc.t.Errorf("%s of %s, whose session was lost, was told %v (%q); want the reason %q",
				p.name, p.cfg.Election, s, s.Reason, reason)
		}
	}
	return n
}

// pair is the two candidates of one election.
type pair struct {
	sc    *scenario
	name  string
	links [2]Link
	both  [2]*participant
	n     int
}

// leader waits until one leads and the other is ready to follow it, and returns the one; nil: not
// in time. Who has lost its session joins again.
func (p *pair) leader() *participant {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(
		10 * time.Millisecond) {
		for i, was := range p.both {
			if was != nil && was.e.Err() == nil {
				continue
			}
			p.n++
			p.both[i] = p.sc.nominate(fmt.Sprintf("%c%d", 'a'+i, p.n), over(p.links[i]), quiet(),
				func(n *participant) { n.cfg.Election = p.name })
		}
		for i, leader := range p.both {
			if leader.e.State().Get().Role == election.Leading &&
				p.both[1-i].e.State().Get().Role == election.Following &&
				p.sc.whoWorks(p.name) == leader {
				return leader
			}
		}
	}
	p.sc.t.Errorf("nobody leads %s, with a follower, within %v: %v, %v", p.name, patience,
		p.both[0].messages(), p.both[1].messages())
	return nil
}

// whoWorks returns the participant whose duty is under way.
func (sc *scenario) whoWorks(name string) *participant {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.working[name]
}
