package onconsul_test

import (
	"context"
	"net/http"
	"strings"
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

// A leader that may not read its election's keys, and still renews its session, leads on. It makes
// way when it may read again, also where the order came on a poll that kept its rights.
func TestALeaderThatMayNotReadLeadsOnAndMakesWayWhenItMayAgain(t *testing.T) {
	for name, underWay := range map[string]bool{"no answer": false, "but a poll under way": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var r rights
				way := s.grants(&r)
				blind := &r.blind
				if underWay {
					blind = new(atomic.Bool)
					way = s.forbidding(func(q *http.Request) bool {
						return blind.Load() && (strings.Contains(q.URL.Path, "/kv/") ||
							transport.TxnWith(`"get`)(q))
					})
				}
				one, two := s.over(way), s.over(s.consul.RoundTripper())
				a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
				time.Sleep(time.Second)
				blind.Store(true)
				must(t, b.HandOver(context.Background(), "b"))
				for range 10 {
					time.Sleep(time.Minute)
					if now := a.State().Get(); now.Role != election.Leading {
						t.Fatalf("the leader is %v", now)
					}
				}
				blind.Store(false)
				if took := untilLeads(b); took > 30*time.Second {
					t.Errorf("b leads %v after a may read again", took)
				}
				electiontest.Resign(a, b)
				one.Close()
				two.Close()
			})
		})
	}
}
