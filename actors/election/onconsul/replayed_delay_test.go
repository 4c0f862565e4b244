package onconsul_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A Consul server that was started anew replays its log, and with it the lock-delay that an earlier
// leader has left. Whoever has the leadership since waits for nobody: when its lease had run out it
// leads again at once, with its token.
func TestALapsedLeaderWaitsForNoLockDelayOfItsPredecessor(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var cut, delays atomic.Bool
		took := transport.When(s.consul.RoundTripper(), func(r *http.Request) bool {
			return delays.Load() && takes(r)
		}, transport.Always(http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":4,"What":`+
			`"failed to lock key \"election/demo/state/leader\" due to lock delay"}]}`))
		c, err := onconsul.Connect(onconsul.Config{Logger: s.log, CheckTTL: onconsul.NoCheck,
			Client: devconsul.ClientOver(transport.When(took, func(*http.Request) bool {
				return cut.Load()
			}, transport.Fail(errReset)))})
		must(t, err)
		a := s.joins(c, "a", 0)
		token := a.State().Get().Token
		cut.Store(true)
		time.Sleep(11 * time.Second)
		if now := a.State().Get(); now.Role != election.Uncertain {
			t.Fatalf("it is %v: this tests nothing", now)
		}
		delays.Store(true)
		cut.Store(false)
		if _, err := a.State().Wait(t.Context(), func(now election.Status) bool {
			return now.Role != election.Uncertain
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if now := a.State().Get(); now.Role != election.Leading || now.Token != token {
			t.Errorf("it is %v, and had led with token %d", now, token)
		}
		delays.Store(false)
		electiontest.Resign(a)
		c.Close()
	})
}

// The leader resigns in good order while such a lock-delay is on: whoever is next is refused, and
// leads when it is over. Nothing can be done about it: Consul refuses each lock of the key.
func TestAReplayedLockDelayIsWaitedForAndNotMuchLonger(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var delays atomic.Bool
		one, two := s.over(s.consul.RoundTripper()), s.over(transport.When(s.consul.RoundTripper(),
			func(r *http.Request) bool { return delays.Load() && takes(r) },
			transport.Always(http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":4,"What":`+
				`"failed to lock key \"election/demo/state/leader\" due to lock delay"}]}`)))
		a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
		delays.Store(true)
		electiontest.Resign(a)
		time.Sleep(10300 * time.Millisecond)
		if now := b.State().Get(); now.Role == election.Leading {
			t.Fatalf("it is %v: this tests nothing", now)
		}
		delays.Store(false)
		if took := untilLeads(b); took > 1100*time.Millisecond {
			t.Errorf("b leads %v after the lock-delay", took)
		}
		electiontest.Resign(b)
		one.Close()
		two.Close()
	})
}

// The answer to a join is lost, and its session is over before the next try. Consul keeps the
// record's key for the lock-delay then, though it was the candidate's own.
func TestAJoinThatWasNotHeardOfIsRepeatedWhenTheLockDelayIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var joins, cut atomic.Bool
		way := transport.When(s.consul.RoundTripper(), transport.TxnWith("/candidates/"),
			func(r *http.Request) (*http.Response, error) {
				join := joins.Load() && strings.Contains(transport.Text(r), `"lock"`)
				resp, err := s.consul.RoundTripper().RoundTrip(r)
				if err == nil && join {
					resp.Body.Close()
					cut.Store(true)
					return nil, errReset
				}
				return resp, err
			})
		c := s.over(transport.When(way, func(*http.Request) bool { return cut.Load() },
			transport.Fail(errReset)))
		other := nominated(t, c, election.Config{Election: "other", Name: "a", Logger: s.log})
		time.Sleep(time.Second)
		joins.Store(true)
		a := nominated(t, c, election.Config{Election: contested, Name: "a", Lead: untilTold,
			Logger: s.log})
		time.Sleep(9 * time.Second) // its check is over by then, and the lock-delay is not
		if !cut.Load() {
			t.Fatal("it has never joined: this tests nothing")
		}
		joins.Store(false)
		cut.Store(false)
		// The lock-delay, and the longest pause between two tries with what it varies by.
		if took := untilLeads(a); took < 5*time.Second || took > 13*time.Second {
			t.Errorf("a leads after %v", took)
		}
		electiontest.Resign(a, other)
		c.Close()
	})
}
