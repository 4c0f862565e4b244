package onzk_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A ZooKeeper that has lost its data, or was restored from before, refuses every client that has
// seen more than it has, without a word: a session with it would never end. Once its lease has been
// over for a session's timeout a client does without that session.
func TestAZooKeeperThatWasSetBackHasLeadersAgain(t *testing.T) {
	for name, session := range map[string]bool{
		"it has lost its data":                  false,
		"it was restored and knows no session":  false,
		"it was restored and knows the session": true,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				restore := s.zoo.Save()
				conn := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer conn.Close()
				if session {
					e := s.nominate(conn, "first")
					becomes(t, e, election.Leading)
					restore = s.zoo.Save() // it led then
					e.Resign()
					<-e.Done()
				}
				e := s.nominate(conn, "n1")
				before := becomes(t, e, election.Leading)
				time.Sleep(time.Minute)
				begin := time.Now()
				s.zoo.Stop()
				if name == "it has lost its data" {
					s.zoo.Lose()
				} else {
					restore()
				}
				// Sessions begin anew with the servers: this one lives when it is asked for.
				time.Sleep(onzk.DefaultSessionTimeout * 3 / 2)
				s.zoo.Start()
				select {
				case <-e.Done():
					if now := e.State().Get(); !errors.Is(now.Err, election.ErrSessionLost) {
						t.Errorf("it is told %v", now)
					}
				case <-time.After(10 * time.Minute):
					t.Fatalf("after ten minutes it is %v", e.State().Get())
				}
				if took := time.Since(begin); took < onzk.DefaultSessionTimeout ||
					took > 4*onzk.DefaultSessionTimeout {
					t.Errorf("it is told after %v", took)
				}
				next := s.nominate(conn, "n2")
				after := becomes(t, next, election.Leading)
				t.Logf("token %d, and then %d", before.Token, after.Token)
				if took, most := time.Since(begin), 6*onzk.DefaultSessionTimeout; took > most {
					t.Errorf("the next one leads after %v", took)
				}
				next.Resign()
				<-next.Done()
			})
		})
	}
}

// A ZooKeeper that was away for long and has lost nothing goes on with its sessions.
func TestASessionOutlivesAnOutageOfTheWholeEnsemble(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				way := s.zoo.Way(devzookeeper.Weather{Rand: rand.New(rand.NewPCG(1, 2)), Lag: lag})
				conn := s.connect(onzk.Config{Dial: way.Dial})
				defer conn.Close()
				e := s.nominate(conn, "n1")
				token := becomes(t, e, election.Leading).Token
				session := conn.Contact().Get().Session
				time.Sleep(time.Minute)
				s.zoo.Stop()
				time.Sleep(time.Minute)
				s.zoo.Start()
				if now := becomes(t, e, election.Leading); now.Token != token ||
					conn.Contact().Get().Session != session {
					t.Errorf("it led with token %d in %s, and now it is %v in %s", token, session,
						now, conn.Contact().Get().Session)
				}
				e.Resign()
				<-e.Done()
			})
		})
	}
}

// A candidate that has given the leadership up comes back, after an outage of the whole ensemble,
// to a server that is behind what it has seen of that: there it leads still. It must not believe
// so.
func TestACandidateBelievesNoServerThatIsBehindWhatItHasSeen(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		way := s.zoo.Way(devzookeeper.Weather{Rand: rand.New(always{}), Lag: 3 * time.Second})
		one := s.connect(onzk.Config{Dial: way.Dial})
		defer one.Close()
		a := s.nominate(one, "a")
		becomes(t, a, election.Leading)
		two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer two.Close()
		b := s.nominate(two, "b")
		becomes(t, b, election.Following)
		must(t, b.HandOver(t.Context(), "b"))
		becomes(t, a, election.Draining)
		a.Drained()
		token := becomes(t, b, election.Leading).Token
		becomes(t, a, election.Following)
		session := one.Contact().Get().Session
		time.Sleep(time.Minute)
		s.zoo.Stop()
		time.Sleep(time.Minute)
		s.zoo.Start()
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
			if now := a.State().Get(); now.Role != election.Following {
				if now.Role == election.Leading || now.Err != nil {
					t.Fatalf("b leads with token %d, and a is %v", token, now)
				}
			}
		}
		if now := one.Contact().Get().Session; now != session {
			t.Errorf("the session was %s, and is %s", session, now)
		}
		for _, e := range []*election.Election{a, b} {
			e.Resign()
			e.Drained()
			<-e.Done()
		}
	})
}
