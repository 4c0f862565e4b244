package onzk_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The bound is that of docs/zookeeper.md, at whatever moment between two heartbeats the silence
// begins.
func TestALeaderRidesThroughASilence(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for step := range 20 {
			t.Run(fmt.Sprint(reset, step), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newEmbedded(t)
					defer s.zoo.Close()
					way := s.zoo.Way(devzookeeper.Weather{})
					conn := s.connect(onzk.Config{Dial: way.Dial})
					defer conn.Close()
					e := s.nominate(conn, "n1")
					token := becomes(t, e, election.Leading).Token
					time.Sleep(time.Minute + time.Duration(step)*100*time.Millisecond)
					way.Sever()
					for range 20 {
						time.Sleep(100 * time.Millisecond)
						if now := e.State().Get(); now.Role != election.Leading {
							t.Fatalf("during the silence it is told %v", now)
						}
					}
					way.Mend(reset)
					for range 100 {
						time.Sleep(100 * time.Millisecond)
						if now := e.State().Get(); now.Role != election.Leading ||
							now.Token != token {
							t.Fatalf("after the silence it is told %v", now)
						}
					}
					s.zoo.Settle()
					e.Resign()
					<-e.Done()
				})
			})
		}
	}
}
