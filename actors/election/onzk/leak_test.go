package onzk_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A candidate's node never comes back under its name. Its watch, a goroutine and the server's part
// of it stayed all the same for as long as the session, and so did those of its predecessor.
func TestCandidaciesThatAreOverLeaveNoWatches(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		conn := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer conn.Close()
		turn := func() {
			first := s.nominate(conn, "first")
			becomes(t, first, election.Leading)
			second := s.nominate(conn, "second")
			becomes(t, second, election.Following)
			first.Resign()
			<-first.Done()
			becomes(t, second, election.Leading)
			second.Resign()
			<-second.Done()
			time.Sleep(time.Second)
		}
		turn()
		watches, goroutines := len(s.zoo.Watches()), runtime.NumGoroutine()
		for range 100 {
			turn()
		}
		if left := s.zoo.Watches(); len(left) > watches+1 {
			t.Errorf("200 candidacies that are over have left watches of %v", left)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%d goroutines, after one turn there were %d", n, goroutines)
		}
	})
}
