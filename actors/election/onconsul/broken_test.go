package onconsul_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// Nobody would renew the session any more, and nobody would take note of its end.
func TestAConnectionWhoseLoopPanicsIsClosedAndItsLeadersStop(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		one, two := s.over(s.consul.RoundTripper()), s.over(s.consul.RoundTripper())
		defer two.Close()
		defer one.Close()
		a := nominated(t, one, election.Config{Election: contested, Name: "a", Lead: untilTold,
			Logger: s.log})
		time.Sleep(3 * time.Second)
		b := nominated(t, two, election.Config{Election: contested, Name: "b", Lead: untilTold,
			Logger: s.log})
		one.BreakLoop()
		<-a.Done()
		if !errors.Is(a.Err(), election.ErrClosed) || !errors.Is(a.Err(), election.ErrBroken) {
			t.Errorf("a ends with %v", a.Err())
		}
		time.Sleep(time.Second)
		if now := b.State().Get(); now.Role != election.Leading {
			t.Errorf("a has given its record up, and b is told %v", now)
		}
		b.Resign()
		<-b.Done()
	})
}

func TestALeaveThatPanicsIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		conn := s.over(s.consul.RoundTripper())
		defer conn.Close()
		a := nominated(t, conn, election.Config{Election: contested, Name: "a", Lead: untilTold,
			Logger: s.log})
		time.Sleep(time.Second)
		left := false
		conn.BreakLeave(func() { left = true })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if now := a.State().Get(); !left || now.Role != election.Leading {
			t.Errorf("it has left: %v; a is told %v", left, now)
		}
		a.Resign()
		<-a.Done()
	})
}
