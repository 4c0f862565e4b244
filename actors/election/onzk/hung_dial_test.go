package onzk_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A dialer of the host's that hangs, or ends its goroutine, costs one attempt: the candidate may
// leave, the connection may be closed, and where another server can be dialed the session goes on.
func TestADialThatDoesNotReturnHoldsNobodyUp(t *testing.T) {
	for name, harm := range map[string]func(never chan struct{}){
		"hangs":              func(never chan struct{}) { <-never },
		"ends its goroutine": func(chan struct{}) { runtime.Goexit() },
	} {
		for _, all := range []bool{true, false} {
			what := name + " to all servers"
			if !all {
				what = name + " to one"
			}
			t.Run(what, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *embedded) {
					var bad atomic.Bool
					var hung atomic.Int32
					never := make(chan struct{})
					way := s.zoo.Way(devzookeeper.Weather{})
					conn := s.connect(onzk.Config{Dial: func(network, address string,
						timeout time.Duration) (net.Conn, error) {
						if bad.Load() && (all || strings.HasPrefix(address, "10.0.0.1:")) {
							hung.Add(1)
							defer hung.Add(-1)
							harm(never)
						}
						return way.Dial(network, address, timeout)
					}})
					e := s.nominate(conn, "n1")
					becomes(t, e, election.Leading)
					session := conn.Contact().Get().Session
					bad.Store(true)
					for range 3 { // so the next server is the bad one, whichever is in use
						way.Mend(true) // breaks the connections
						time.Sleep(20 * time.Second)
					}
					now := conn.Contact().Get()
					if !all && now.Session != session {
						t.Errorf("session %s is over: %s", session, now.Why)
					}
					if n := hung.Load(); int(n) > len(addresses) {
						t.Errorf("%d dials hang", n)
					}
					begin := time.Now()
					e.Resign()
					select {
					case <-e.Done():
					case <-time.After(time.Hour):
						t.Errorf("an hour after Resign it is %v", e.State().Get())
					}
					if took := time.Since(begin); took > onzk.DefaultSessionTimeout/3 {
						t.Errorf("it took %v to resign", took)
					}
					begin = time.Now()
					conn.Close()
					if took := time.Since(begin); took > 6*time.Second {
						t.Errorf("it took %v to close", took)
					}
					close(never)
					<-e.Done()
					time.Sleep(time.Second) // the dials return
				})
			})
		}
	}
}

// A candidate that leaves while none of seven servers can be dialed is told within a third of the
// timeout; what it holds is given up as soon as that is possible.
func TestALeaveIsBoundedByAThirdOfTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var servers []string
		for n := range 7 {
			servers = append(servers, fmt.Sprintf("10.0.0.%d:2181", n+1))
		}
		var away atomic.Bool
		way := s.zoo.Way(devzookeeper.Weather{})
		one, err := onzk.Connect(onzk.Config{Servers: servers, Logger: s.log,
			Dial: func(network, address string, timeout time.Duration) (net.Conn, error) {
				if away.Load() {
					time.Sleep(timeout)
					return nil, errors.New("no answer")
				}
				return way.Dial(network, address, timeout)
			}})
		must(t, err)
		defer one.Close()
		two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer two.Close()
		a := s.nominate(one, "a")
		becomes(t, a, election.Leading)
		b := s.nominate(two, "b")
		becomes(t, b, election.Following)
		away.Store(true)
		way.Mend(true) // breaks the connections
		time.Sleep(50 * time.Millisecond)
		begin := time.Now()
		a.Resign()
		<-a.Done()
		if took, most := time.Since(begin), onzk.DefaultSessionTimeout/3; took > most {
			t.Errorf("it took %v to leave, more than %v", took, most)
		}
		away.Store(false)
		begin = time.Now()
		becomes(t, b, election.Leading)
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the next one leads after %v", took)
		}
		b.Resign()
		<-b.Done()
	})
}
