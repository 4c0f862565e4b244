package onconsul_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// forbids answers as a Consul whose rules forbid what is asked.
var forbids = transport.Always(http.StatusForbidden, "Permission denied")

// forbidding is a way to this Consul that forbids the requests that are aimed at.
func (s *embedded) forbidding(aimed func(*http.Request) bool) http.RoundTripper {
	return transport.When(s.consul.RoundTripper(), aimed, forbids)
}

// A candidate is told at once what it may not, also what it will need only later, and ends after
// half a minute: a new right takes a moment to reach all servers.
func TestACandidateThatLacksARightIsToldAtOnceAndEnds(t *testing.T) {
	for _, right := range []string{"state/election", "state/leader", "candidates/", "sequence/",
		"session/create"} {
		for _, comes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the right comes: %v", right, comes), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *embedded) {
					var granted atomic.Bool
					conn := s.over(s.forbidding(func(r *http.Request) bool {
						return !granted.Load() && (strings.Contains(r.URL.Path, right) ||
							r.Method == http.MethodPut && transport.TxnWith(right)(r) &&
								!transport.TxnWith(`"get-or-empty"`)(r))
					}))
					defer conn.Close()
					e := s.joins(conn, "a", 0)
					if now := e.State().Get(); now.What != election.Waiting ||
						!strings.Contains(now.Reason, election.ErrDenied.Error()) ||
						!strings.Contains(now.Reason, "_prefix") {
						t.Errorf("after a second it is told %v", now)
					}
					time.Sleep(20 * time.Second)
					granted.Store(comes)
					time.Sleep(20 * time.Second)
					now := e.State().Get()
					if comes && now.Role != election.Leading || !comes &&
						!errors.Is(now.Err, election.ErrDenied) {
						t.Errorf("after 40 s it is told %v", now)
					}
					electiontest.Resign(e)
				})
			})
		}
	}
}

// A right that is taken away later costs a candidate its turn, and a leader nothing until it makes
// way. Both try again.
func TestWhatIsDeniedLaterIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var denied atomic.Bool
		one := s.over(s.forbidding(func(r *http.Request) bool {
			return denied.Load() && transport.TxnWith(`state/leader"`)(r) && (takes(r) ||
				transport.TxnWith(`"delete"`)(r))
		}))
		two := s.over(s.consul.RoundTripper())
		defer one.Close()
		defer two.Close()
		first, a, b := s.joins(two, "first", 0), s.joins(one, "a", 0), s.joins(two, "b", 0)
		denied.Store(true)
		electiontest.Resign(first)
		time.Sleep(2 * time.Second)
		if now := b.State().Get(); now.Role != election.Leading {
			t.Errorf("a may not lead, and b is told %v", now)
		}
		denied.Store(false)
		time.Sleep(31 * time.Second)
		must(t, b.HandOver(t.Context(), a.State().Get().Self.ID))
		time.Sleep(time.Second)
		denied.Store(true)
		if now := a.State().Get(); now.Role != election.Leading {
			t.Fatalf("a may lead, and is told %v", now)
		}
		a.Resign()
		time.Sleep(time.Minute)
		denied.Store(false)
		if took := untilLeads(b); took > 31*time.Second {
			t.Errorf("a may resign, and b leads %v later", took)
		}
		electiontest.Resign(a, b)
	})
}

// Somebody waits for an order who can act: a denial is an answer.
func TestAnOrderThatIsDeniedSaysSoAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		conn := s.over(s.consul.RoundTripper())
		operator := s.over(s.forbidding(transport.TxnWith(`"cas"`)))
		defer conn.Close()
		defer operator.Close()
		a := s.joins(conn, "a", 0)
		e, err := election.New(operator, election.Config{Election: contested, Logger: s.log})
		must(t, err)
		begin := time.Now()
		for what, err := range map[string]error{"end": e.End(t.Context()),
			"delete": e.Delete(t.Context())} {
			if !errors.Is(err, election.ErrDenied) || time.Since(begin) > time.Second {
				t.Errorf("%s: %v after %v", what, err, time.Since(begin))
			}
		}
		electiontest.Resign(a)
	})
}
