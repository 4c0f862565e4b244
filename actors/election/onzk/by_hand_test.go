package onzk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// An election whose node was made by hand gets an identity, with the first candidate or the first
// order. So an order to it that is late misses the next election of the name.
func TestALateOrderToAnElectionMadeByHandMissesTheNextOne(t *testing.T) {
	for _, state := range []string{"ended", "deleted"} {
		for _, joined := range []bool{true, false} {
			name := state + ", nobody has joined"
			if joined {
				name = state
			}
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *embedded) {
					lateOrderByHand(t, s, state, joined)
				})
			})
		}
	}
}

func lateOrderByHand(t *testing.T, s *embedded, state string, joined bool) {
	quick := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
	defer quick.Close()
	base := onzk.DefaultRoot
	for _, path := range []string{"/coordd", base, base + "/demo"} {
		s.zoo.Write(path, nil)
	}
	var first *election.Election
	if joined {
		first = s.nominate(quick, "first")
		becomes(t, first, election.Leading)
	}
	slow, g := s.gated(s.zoo.Way(devzookeeper.Weather{}), `"state":"`+state+`"`)
	defer slow.Close()
	over := make(chan error, 1)
	go func() {
		order := s.operator(slow).End
		if state == "deleted" {
			order = s.operator(slow).Delete
		}
		over <- order(t.Context())
	}()
	<-g.held
	if joined {
		electiontest.Resign(first)
	}
	for name := range s.zoo.Nodes(base + "/demo") {
		if strings.HasPrefix(name, "_p_") {
			t.Errorf("%s is left", name)
		}
	}
	s.zoo.Remove(base + "/demo")
	time.Sleep(100 * time.Millisecond) // quick has heard of it
	s.zoo.Write(base+"/demo", nil)
	next := s.nominate(quick, "next")
	time.Sleep(100 * time.Millisecond)
	close(g.free)
	err := <-over
	time.Sleep(time.Second)
	if now := next.State().Get(); now.What == election.Over {
		t.Errorf("the order (%v) has ended the next election: %v", err, now)
	}
	electiontest.Resign(next)
}
