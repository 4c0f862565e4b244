package onzk_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The guard of a dead process departs for it, and the next candidate leads at once: all places of
// the session are given up, and nobody else's.
func TestADepartureGivesUpAllPlacesOfTheSessionAndNoOthers(t *testing.T) {
	for what, c := range map[string]struct {
		waited bool // the dead one did not lead
		dead   int  // its candidates
	}{
		"a leader":                         {dead: 1},
		"a leader and another candidate":   {dead: 2},
		"a candidate that did not lead":    {waited: true, dead: 1},
		"two candidates that did not lead": {waited: true, dead: 2},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				living := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer living.Close()
				var first *election.Election
				if c.waited {
					first = s.nominate(living, "first")
					becomes(t, first, election.Leading)
				}
				way := s.zoo.Way(devzookeeper.Weather{})
				dead := s.connect(onzk.Config{Dial: way.Dial})
				var died []*election.Election
				for i := range c.dead {
					died = append(died, s.nominate(dead, fmt.Sprint("dead", i)))
					time.Sleep(time.Second)
				}
				next := s.nominate(living, "next")
				becomes(t, next, election.Following)
				way.Sever()
				cfg := onzk.Config{Servers: addresses, Logger: s.log,
					Dial: s.zoo.Way(devzookeeper.Weather{}).Dial}
				led, err := onzk.Depart(t.Context(), cfg, "demo", dead.Contact().Get().Session)
				if led == c.waited || err != nil {
					t.Errorf("the departure: %v, %v", led, err)
				}
				begin := time.Now()
				if c.waited {
					electiontest.Resign(first)
				}
				becomes(t, next, election.Leading)
				if took := time.Since(begin); took > time.Second {
					t.Errorf("the next one leads after %v", took)
				}
				if left, err := next.Candidates(t.Context()); err != nil || len(left) != 1 {
					t.Errorf("the candidates are %v (%v)", left, err)
				}
				electiontest.Resign(next)
				way.Mend(true)
				dead.Close()
				electiontest.Resign(died...)
			})
		})
	}
}
