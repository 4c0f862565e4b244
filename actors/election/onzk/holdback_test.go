package onzk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

func TestAHoldBackAboveTheBoundIsRefused(t *testing.T) {
	_, err := onzk.Connect(onzk.Config{Servers: addresses, HoldBack: election.MaxHoldBack + 1})
	if !errors.Is(err, election.ErrInvalid) {
		t.Errorf("it is %v", err)
	}
}

// The client counts a session's timeout in milliseconds, in 31 bits: beyond 24.8 days no session
// ever began, and nobody said why.
func TestASessionTimeoutAboveTheBoundIsRefused(t *testing.T) {
	for timeout, fits := range map[time.Duration]bool{
		onzk.MaxSessionTimeout: true, onzk.MaxSessionTimeout + 1: false, 600 * time.Hour: false,
	} {
		err := onzk.Config{Servers: addresses, SessionTimeout: timeout}.Validate()
		if (err == nil) != fits || err != nil && !errors.Is(err, election.ErrInvalid) {
			t.Errorf("with %v it is %v", timeout, err)
		}
	}
}

// Whoever preempts means a leader of lower priority, and not the one after it.
func TestAHandOverThatIsForAnEarlierLeaderIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		conn := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer conn.Close()
		a := s.nominate(conn, "a")
		first := becomes(t, a, election.Leading).Token
		b := s.nominate(conn, "b")
		becomes(t, b, election.Following)
		c := s.nominate(conn, "c")
		id := becomes(t, c, election.Following).Self.ID
		a.Resign()
		second := becomes(t, b, election.Leading).Token
		backend, err := conn.Open("demo")
		must(t, err)
		if err := backend.HandOver(t.Context(), id, first); !errors.Is(err, election.ErrNoLeader) {
			t.Errorf("an order for the leader before is answered with %v", err)
		}
		time.Sleep(time.Minute)
		if s := b.State().Get(); s.Role != election.Leading {
			t.Errorf("the leader is told %v", s)
		}
		must(t, backend.HandOver(t.Context(), id, second))
		becomes(t, b, election.Draining)
		electiontest.Resign(b, c)
		<-a.Done()
	})
}
