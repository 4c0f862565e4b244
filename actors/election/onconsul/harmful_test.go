package onconsul_test

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A connection has goroutines of its own, and no supervisor watches them.
func TestATransportThatFailsIsAConsulThatDoesNotAnswer(t *testing.T) {
	for name, fails := range map[string]func(){
		"panics": func() { panic("no transport") },
		"leaves": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var broken atomic.Bool
				over := func() http.RoundTripper {
					return transport.Func(func(r *http.Request) (*http.Response, error) {
						resp, err := s.consul.RoundTripper().RoundTrip(r)
						if broken.Load() {
							fails()
						}
						return resp, err
					})
				}
				one, two := s.over(over()), s.over(over())
				broken.Store(true)
				stand := func(e *election.Election) election.Status {
					time.Sleep(3 * time.Second)
					return e.State().Get()
				}
				a := nominated(t, one, election.Config{Election: contested, Name: "a",
					Lead: untilTold, Logger: s.log})
				if s := stand(a); s.What != election.Waiting || s.Reason == "" {
					t.Errorf("a is told %v", s)
				}
				broken.Store(false)
				led := stand(a)
				if led.Role != election.Leading {
					t.Fatalf("a is told %v", led)
				}
				b := nominated(t, two, election.Config{Election: contested, Name: "b",
					Lead: untilTold, Logger: s.log})
				stand(b)
				broken.Store(true)
				if s := stand(a); s.Role != election.Leading || s.Token != led.Token {
					t.Errorf("inside of its lease a is told %v", s)
				}
				broken.Store(false)
				if s := stand(a); s.Role != election.Leading || s.Token != led.Token {
					t.Errorf("a is told %v", s)
				}
				broken.Store(true)
				a.Resign()
				<-a.Done()
				if s := stand(b); s.Role == election.Leading {
					t.Errorf("b is told %v", s)
				}
				broken.Store(false)
				time.Sleep(5 * time.Second)
				if s := stand(b); s.Role != election.Leading {
					t.Errorf("a has resigned, and b is told %v", s)
				}
				broken.Store(true)
				one.Close()
				b.Resign()
				<-b.Done()
				two.Close()
			})
		})
	}
}
