package onconsul_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Who may join and not lead would wait for ever, and nobody would know why.
func TestWhyTheLeadershipCannotBeTakenIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		c := s.over(s.forbidding(transport.TxnWith(`state/leader"`, `"lock"`)))
		defer c.Close()
		var text bytes.Buffer
		log := asynclog.Wrap(slog.New(slog.NewTextHandler(&text, nil)))
		e := nominated(t, c, election.Config{Election: contested, Name: "a", Logger: log})
		time.Sleep(time.Minute)
		e.Resign()
		<-e.Done()
		asynclog.Flush(log, time.Second)
		if n := strings.Count(text.String(), "operation=take"); n != 1 ||
			!strings.Contains(text.String(), "Permission denied") {
			t.Errorf("%d lines say why it does not lead:\n%s", n, text.String())
		}
	})
}

// goings are how a leader's duty comes to an end.
var goings = map[string]func(a, b *election.Election) error{
	"that is asked to make way": func(_, b *election.Election) error {
		return b.HandOver(context.Background(), "b")
	},
	"that resigns": func(a, _ *election.Election) error {
		a.Resign()
		return nil
	},
}

// A leader whose token lost the right to write is asked to make way, or resigns. Its duty ends, and
// it can tell nobody.
func TestALeaderThatMayNoLongerWriteIsSucceeded(t *testing.T) {
	for name, goes := range goings {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var denied atomic.Bool
				one := s.over(s.forbidding(func(r *http.Request) bool {
					return denied.Load() && strings.HasSuffix(r.URL.Path, "/txn")
				}))
				defer one.Close()
				a := s.joins(one, "a", 0)
				two := s.over(s.consul.RoundTripper())
				defer two.Close()
				b := s.joins(two, "b", 0)
				denied.Store(true)
				must(t, goes(a, b))
				begin := time.Now()
				for b.State().Get().Role != election.Leading && time.Since(begin) < time.Hour {
					time.Sleep(time.Second)
				}
				// The lease, the renewal behind it, the lock-delay.
				if took := time.Since(begin); took > 40*time.Second {
					t.Errorf("after %v a is %v, and b %v", took, a.State().Get(), b.State().Get())
				}
				denied.Store(false)
				electiontest.Resign(a, b)
			})
		})
	}
}

// Rules that deny one election's keys cost those that the same connection leads nothing.
func TestALeaderThatMayNoLongerWriteCostsNoOtherElection(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var denied atomic.Bool
		c := s.over(s.forbidding(func(r *http.Request) bool {
			return denied.Load() && transport.TxnWith(contested+`/state/leader"`)(r)
		}))
		a := s.joins(c, "a", 0)
		other := nominated(t, c, election.Config{Election: "other", Name: "a", Lead: untilTold,
			Logger: s.log})
		time.Sleep(time.Second)
		denied.Store(true)
		a.Resign()
		time.Sleep(5 * time.Minute)
		if now := other.State().Get(); now.Role != election.Leading {
			t.Errorf("the other election's leader: %v", now)
		}
		other.Resign()
		<-other.Done()
		<-a.Done()
		c.Close()
	})
}

// With a long lease there is much time between two renewals.
func TestALeaderThatMayNoLongerWriteIsSucceededSoonAfterALongLease(t *testing.T) {
	for name, goes := range goings {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				const lease = 10 * time.Minute
				var r rights
				one, err := onconsul.Connect(onconsul.Config{TTL: lease, Logger: s.log,
					Client: devconsul.ClientOver(s.grants(&r))})
				must(t, err)
				two := s.over(s.consul.RoundTripper())
				a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
				time.Sleep(lease/3 + time.Second)
				r.denied.Store(true)
				must(t, goes(a, b))
				limit := lease + 10*time.Second + store.MaxLockDelay
				if took := untilLeads(b); took > limit {
					t.Errorf("b leads after %v, more than %v", took, limit)
				}
				r.denied.Store(false)
				electiontest.Resign(a, b)
				one.Close()
				two.Close()
			})
		})
	}
}

// What is denied may have won, unheard of, so the session is given up. Where another one leads
// nothing has.
func TestACandidateThatIsDeniedToLeadGivesItsSessionUpOnlyWhereNobodyLeads(t *testing.T) {
	for name, another := range map[string]bool{"nobody leads": false, "another leads": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var denied atomic.Bool
				one, two := s.over(s.denies(&denied)), s.over(s.consul.RoundTripper())
				x, a := s.joins(two, "x", 0), s.joins(one, "a", 0)
				all := []*election.Election{a}
				if another {
					all = append(all, s.joins(two, "b", 0))
				}
				denied.Store(true)
				electiontest.Resign(x)
				time.Sleep(30 * time.Second)
				now := a.State().Get()
				if lost := errors.Is(now.Err, election.ErrSessionLost); lost == another {
					t.Errorf("it is %v, and its session is lost: %v", now, lost)
				}
				electiontest.Resign(all...)
				one.Close()
				two.Close()
			})
		})
	}
}
