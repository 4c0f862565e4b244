package onzk_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// Sessions are shorter than the pause between two tries of what is denied. It is the same denial
// all the same.
func TestADenialLastsWhereSessionsAreShort(t *testing.T) {
	const tick = 500 * time.Millisecond
	const timeout = 2 * tick
	// The denial; the pause, in which its end comes; the session's end; the lock-delay.
	const bound = timeout + 3*time.Second + timeout + tick + timeout + time.Second
	for _, what := range []string{"to give the leadership up", "to lead"} {
		for try := range 4 { // the pauses are random
			t.Run(fmt.Sprint(what, try), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *embedded) {
					s.zoo.SetTick(tick)
					cfg := onzk.Config{SessionTimeout: timeout,
						Dial: s.zoo.Way(devzookeeper.Weather{}).Dial}
					one := s.connect(cfg)
					defer one.Close()
					server := &denying{Way: s.zoo.Way(devzookeeper.Weather{})}
					cfg.Dial = server.Dial
					two := s.connect(cfg)
					defer two.Close()
					first := s.nominate(one, "first")
					becomes(t, first, election.Leading)
					denied := s.nominate(two, "denied")
					becomes(t, denied, election.Following)
					last := s.nominate(one, "last")
					becomes(t, last, election.Following)
					path := "/demo/"
					if what == "to lead" {
						path = "/demo/leader"
						server.path.Store(&path)
						first.Resign()
					} else {
						electiontest.Resign(first)
						becomes(t, denied, election.Leading)
						server.path.Store(&path)
						must(t, last.HandOver(t.Context(), "last"))
						becomes(t, denied, election.Draining)
						denied.Drained()
					}
					ctx, cancel := context.WithTimeout(t.Context(), bound)
					defer cancel()
					if _, err := last.State().Wait(ctx, func(s election.Status) bool {
						return s.Role == election.Leading
					}); err != nil {
						t.Errorf("%v later the denied one is %v, and the one behind it %v", bound,
							denied.State().Get(), last.State().Get())
					}
					server.path.Store(nil)
					electiontest.Resign(last, denied)
				})
			})
		}
	}
}
