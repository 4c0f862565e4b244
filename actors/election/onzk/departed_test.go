package onzk_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A dead leader's guard departs for it, and the next candidate leads at once: whatever a stranger
// has written over the leader's record, and wherever the session has another place. Nobody else's
// place is given up.
func TestADepartureGivesUpAllPlacesOfTheSessionAndNoOthers(t *testing.T) {
	const nonsense = "?"
	for what, c := range map[string]struct {
		record string // what a stranger writes over the leader's, ID for b's id; empty: nothing
		second bool   // the dead process has a second candidate
	}{
		"a record that cannot be read":     {record: nonsense},
		"a record that names another":      {record: `{"id":"ID","name":"b"}`},
		"a second candidate":               {second: true},
		"that, and a record of a stranger": {record: nonsense, second: true},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				way := s.zoo.Way(devzookeeper.Weather{})
				dead := s.connect(onzk.Config{Dial: way.Dial})
				died := []*election.Election{s.nominate(dead, "a")}
				becomes(t, died[0], election.Leading)
				if c.second {
					died = append(died, s.nominate(dead, "a2"))
					becomes(t, died[1], election.Following)
				}
				living := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer living.Close()
				next := s.nominate(living, "b")
				becomes(t, next, election.Following)
				if c.record != "" {
					record := strings.ReplaceAll(c.record, "ID", next.State().Get().Self.ID)
					_, err := living.ZK().Set(onzk.DefaultRoot+"/demo/leader", []byte(record), -1)
					must(t, err)
				}
				queue := func() []string {
					nodes, _, err := living.ZK().Children(onzk.DefaultRoot + "/demo")
					must(t, err)
					return onzk.Queue(nodes)
				}
				before := queue()
				session := dead.Contact().Get().Session
				way.Sever()
				cfg := onzk.Config{Servers: addresses, Logger: s.log,
					Dial: s.zoo.Way(devzookeeper.Weather{}).Dial}
				if led, err := onzk.Depart(t.Context(), cfg, "demo", session); !led || err != nil {
					t.Errorf("the departure: %v, %v", led, err)
				}
				begin := time.Now()
				becomes(t, next, election.Leading)
				if took := time.Since(begin); took > time.Second {
					t.Errorf("the next one leads after %v", took)
				}
				if now, want := queue(), before[len(died):]; !slices.Equal(now, want) {
					t.Errorf("the queue is %v, not %v", now, want)
				}
				next.Resign()
				<-next.Done()
				way.Mend(true)
				dead.Close()
				for _, e := range died {
					<-e.Done()
				}
			})
		})
	}
}
