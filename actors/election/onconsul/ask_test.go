package onconsul_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A candidate that asks the leader to make way, and is not answered, asks again until it is; it can
// resign all the same.
func TestACandidateResignsAlsoWhileItAsksForTheLeadership(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		asked, consul := make(chan struct{}), s.consul.RoundTripper()
		ask := sync.OnceFunc(func() { close(asked) })
		unheard := transport.Func(func(r *http.Request) (*http.Response, error) {
			if ordersHandOver(r) {
				ask()
				return transport.Hang(r)
			}
			return consul.RoundTrip(r)
		})
		nominate := func(name string, priority int, next http.RoundTripper) (*election.Election,
			*onconsul.Conn) {
			conn := s.over(&wire{next: next, server: s})
			e := nominated(t, conn, election.Config{Election: "demo", Name: name,
				Priority: priority, Preempt: true, Logger: s.log,
				Lead: untilTold})
			time.Sleep(time.Second)
			return e, conn
		}
		b, two := nominate("b", 0, s.consul.RoundTripper())
		a, one := nominate("a", 5, unheard)
		<-asked
		a.Resign()
		select {
		case <-a.Done():
		case <-time.After(10 * time.Second):
			t.Errorf("10s after it resigned a says: %v", a.State().Get())
			one.Close()
			<-a.Done()
		}
		b.Resign()
		<-b.Done()
		one.Close()
		two.Close()
	})
}

// Its request waits while the leader that it is for resigns. The next one has a higher priority.
func TestWhoeverPreemptsAsksNoLaterLeaderToMakeWay(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var open atomic.Bool
		consul := s.consul.RoundTripper()
		slow := s.over(transport.When(consul, func(r *http.Request) bool {
			return !open.Load() && ordersHandOver(r)
		}, transport.Fail(errRefused)))
		defer slow.Close()
		conn := s.over(consul)
		defer conn.Close()
		stands := func(over election.Connection, name string, priority int) *election.Election {
			e := nominated(t, over, election.Config{Election: contested, Name: name,
				Priority: priority, Preempt: name == "asks", Lead: untilTold, Logger: s.log})
			time.Sleep(time.Second)
			return e
		}
		low := stands(conn, "low", 0)
		high := stands(conn, "high", 9)
		asks := stands(slow, "asks", 5)
		low.Resign()
		<-low.Done()
		time.Sleep(time.Second)
		open.Store(true)
		time.Sleep(time.Minute)
		if s := high.State().Get(); s.Role != election.Leading {
			t.Errorf("the one of the highest priority is told %v", s)
		}
		electiontest.Resign(asks, high)
	})
}
