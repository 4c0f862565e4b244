package onconsul_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A process is killed while its Take is under way. The Take arrives when its departure has found
// that nobody leads, at the last moment of each of its steps.
func TestADepartureLeavesNothingForATakeThatIsUnderWay(t *testing.T) {
	for name, at := range map[string]func(*http.Request) bool{
		"before the session ends": func(r *http.Request) bool {
			return strings.Contains(r.URL.Path, "/session/destroy/")
		},
		"before its candidates are deleted": func(r *http.Request) bool {
			return strings.Contains(transport.Txn(r), `"delete`)
		},
	} {
		t.Run(name, func(t *testing.T) { departsBesideATake(t, at) })
	}
}

func departsBesideATake(t *testing.T, arrives func(*http.Request) bool) {
	bubble(t, func(t *testing.T, s *embedded) {
		var armed, dead atomic.Bool
		sent, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		dies := s.over(transport.Func(func(r *http.Request) (*http.Response, error) {
			if text := transport.Txn(r); strings.Contains(text, `state/leader"`) &&
				strings.Contains(text, `"lock"`) && armed.CompareAndSwap(true, false) {
				dead.Store(true) // and its request is on its way
				close(sent)
				<-free
				defer close(done)
				return s.consul.RoundTripper().RoundTrip(r)
			}
			if dead.Load() {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return s.consul.RoundTripper().RoundTrip(r)
		}))
		alive := s.over(s.consul.RoundTripper())
		defer alive.Close()
		leader, first, next := s.joins(alive, "leader", 0), s.joins(dies, "first", 0),
			s.joins(alive, "next", 0)
		session := dies.Contact().Get().Session
		armed.Store(true)
		leader.Resign()
		<-sent
		arrive := sync.OnceFunc(func() {
			close(free)
			<-done
		})
		guard := devconsul.ClientOver(transport.Func(func(r *http.Request) (*http.Response, error) {
			if arrives(r) {
				arrive()
			}
			return s.consul.RoundTripper().RoundTrip(r)
		}))
		begin := time.Now()
		_, err := onconsul.Depart(t.Context(), onconsul.Config{Client: guard}, contested, session)
		must(t, err)
		for next.State().Get().Role != election.Leading && time.Since(begin) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the next one leads after %v", took)
		}
		dead.Store(false)
		electiontest.Resign(first, next, leader)
		dies.Close()
	})
}
