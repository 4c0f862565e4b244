package onconsul_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Those who have no token lose their rights for a while, and Consul leaves out what they may not
// read, without a word. The election has not been deleted by that.
func TestAnElectionIsNotTakenForDeletedByThoseWhoMayNotReadIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var denied atomic.Bool
		one := s.over(transport.Anonymous(s.consul.RoundTripper(), denied.Load))
		two := s.over(transport.Anonymous(s.consul.RoundTripper(), denied.Load))
		a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
		denied.Store(true)
		for _, key := range []string{"1", "2", "3"} { // a poll that is under way keeps its rights
			s.pokes("election/" + contested + "/state/odd" + key)
			time.Sleep(10 * time.Second)
		}
		denied.Store(false)
		time.Sleep(10 * time.Second)
		if now := a.State().Get(); now.Role != election.Leading {
			t.Errorf("the leader is %v", now)
		}
		if now := b.State().Get(); now.Role != election.Following {
			t.Errorf("the other one is %v", now)
		}
		electiontest.Resign(a, b)
		one.Close()
		two.Close()
	})
}
