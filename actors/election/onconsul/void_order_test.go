package onconsul_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// An order to make way for a candidate that has left is void. Those who come later may ask all the
// same.
func TestAVoidOrderKeepsNobodyFromPreempting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		w := &wire{next: s.consul.RoundTripper(), server: s}
		one, two := s.over(w), s.over(s.consul.RoundTripper())
		defer one.Close()
		defer two.Close()
		stands := func(over election.Connection, name string, priority int) *election.Election {
			return nominated(t, over, election.Config{Election: contested, Name: name,
				Priority: priority, Preempt: true, Lead: untilTold, Logger: s.log})
		}
		leader := stands(one, "leader", 0)
		time.Sleep(time.Second)
		w.sever() // it hears of the order when its candidate has left
		gone := stands(two, "gone", 1)
		time.Sleep(time.Second)
		gone.Resign()
		<-gone.Done()
		w.mend()
		time.Sleep(10 * time.Second)
		if s := leader.State().Get(); s.Role != election.Leading {
			t.Fatalf("the leader is told %v", s)
		}
		next := stands(two, "next", 1)
		time.Sleep(10 * time.Second)
		if s := next.State().Get(); s.Role != election.Leading {
			t.Errorf("who has the higher priority is told %v", s)
		}
		for _, e := range []*election.Election{leader, next} {
			e.Resign()
			<-e.Done()
		}
	})
}
