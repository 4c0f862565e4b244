package onzk_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

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
