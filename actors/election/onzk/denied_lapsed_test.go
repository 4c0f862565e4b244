package onzk_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A leader's lease runs out in an outage, its session lives on, and its rights are taken away
// meanwhile: it may not lead again. It makes way, and where that is denied too, its session does,
// though a leader of another election has lapsed in it as well.
func TestALapsedLeaderThatMayNotLeadAgainIsSucceeded(t *testing.T) {
	const denied = onzk.DefaultSessionTimeout + 3*time.Second
	const long = denied + 2*onzk.DefaultSessionTimeout + devzookeeper.Tick + time.Second
	for _, c := range []struct {
		name  string
		kinds []uint32
		bound time.Duration
	}{
		{"to read", []uint32{kindRead, kindList}, denied + time.Second},
		{"to read and to write", []uint32{kindRead, kindList, kindCommit}, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				server := &denying{Way: s.zoo.Way(devzookeeper.Weather{}), kinds: c.kinds}
				one := s.connect(onzk.Config{Dial: server.Dial})
				defer one.Close()
				two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer two.Close()
				var leaders, next []*election.Election
				for _, name := range []string{"demo", "other"} {
					leaders = append(leaders, s.nominateIn(name, one, "a"))
					becomes(t, leaders[len(leaders)-1], election.Leading)
					next = append(next, s.nominateIn(name, two, "b"))
					becomes(t, next[len(next)-1], election.Following)
				}
				s.zoo.Stop()
				for _, a := range leaders {
					becomes(t, a, election.Uncertain)
				}
				path := onzk.DefaultRoot
				server.path.Store(&path)
				s.zoo.Start()
				begin := time.Now()
				for i, b := range next {
					becomes(t, b, election.Leading)
					if took := time.Since(begin); took > c.bound {
						t.Errorf("b leads after %v, when a is %v", took, leaders[i].State().Get())
					}
				}
				server.path.Store(nil)
				electiontest.Resign(append(leaders, next...)...)
			})
		})
	}
}
