package onzk_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The next in line looked again as soon as it was refused: some thousand times a second, for as
// long as the lock-delay lasted.
func TestALockDelayIsWaitedForWithoutAsking(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		way := s.zoo.Way(devzookeeper.Weather{})
		lost := s.connect(onzk.Config{Dial: way.Dial})
		defer lost.Close()
		next := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer next.Close()
		a := s.nominate(lost, "a")
		becomes(t, a, election.Leading)
		b := s.nominate(next, "b")
		becomes(t, b, election.Following)
		way.Sever()
		session, _ := lost.Credentials()
		s.zoo.End(session)
		began, asked := time.Now(), s.zoo.Requests()
		time.Sleep(9 * time.Second)
		// It proves its lease six times in ten seconds, with a ping between two of them.
		if n := s.zoo.Requests() - asked; n > 60 {
			t.Errorf("%d requests while the lock-delay is waited for", n)
		}
		becomes(t, b, election.Leading)
		if d := time.Since(began); d < 10*time.Second || d > 10*time.Second+200*time.Millisecond {
			t.Errorf("b leads %v after a's session was ended; the lock-delay is 10s", d)
		}
		way.Mend(true)
		a.Resign()
		b.Resign()
		<-a.Done()
		<-b.Done()
	})
}
