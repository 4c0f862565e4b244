package onzk_test

import (
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A take waits for a connection while its session is given up. It is sent over the next session,
// where it wins by the candidate's node, which is there until ZooKeeper ends the old session. The
// candidate gives up what it has won: the next session goes on.
func TestATakeThatWinsInTheNextSessionIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		one := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer one.Close()
		b, err := one.Open("demo")
		must(t, err)
		old, err := b.Join(t.Context(), election.Candidate{ID: "b", Name: "b"})
		must(t, err)
		two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer two.Close()
		one.GiveUp()
		next, err := one.Contact().Wait(t.Context(), func(c election.Contact) bool {
			return c.Session != "" && c.Session != old
		})
		must(t, err)
		must(t, onzk.SendTake(b))
		c := s.nominate(two, "c")
		becomes(t, c, election.Following)
		must(t, b.Leave(t.Context()))
		becomes(t, c, election.Leading)
		if now := one.Contact().Get().Session; now != next.Session {
			t.Errorf("it was won in session %s, and now there is %s", next.Session, now)
		}
		electiontest.Resign(c)
	})
}
