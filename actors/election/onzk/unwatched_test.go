package onzk_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The client sends no watches on its next connection when none is left. Its answers were held back
// until it did, for as long as it waits for one, and on each connection after that anew.
func TestAConnectionWithoutWatchesComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		way := s.zoo.Way(devzookeeper.Weather{})
		conn := s.connect(onzk.Config{Dial: way.Dial})
		defer conn.Close()
		other := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer other.Close()
		leader := s.nominate(other, "leader")
		becomes(t, leader, election.Leading)
		first := s.nominate(conn, "first")
		becomes(t, first, election.Following)
		first.Resign()
		<-first.Done()
		// What it has watched changes for the last time, and nobody here wants to know.
		leader.Resign()
		<-leader.Done()
		must(t, leader.Delete(t.Context()))
		session := conn.Contact().Get().Session
		way.Mend(true) // breaks the connection
		time.Sleep(time.Minute)
		second := s.nominate(conn, "second")
		begin := time.Now()
		becomes(t, second, election.Leading)
		if d := time.Since(begin); d > time.Second {
			t.Errorf("it leads after %v", d)
		}
		if now := conn.Contact().Get(); now.Session != session {
			t.Errorf("session %s, before %s: %s", now.Session, session, now.Why)
		}
		second.Resign()
		<-second.Done()
	})
}
