package onzk_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// ZooKeeper is restored, while an election is being deleted, from a moment before its end. It has a
// leader again then, which the Delete has end before it removes anything, also if another Delete
// has ended the election meanwhile.
func TestADeleteDuringWhichZooKeeperIsRestoredWaitsForItsLeader(t *testing.T) {
	for _, c := range []struct {
		name          string
		lost, another bool
	}{
		{name: "while its leader stops"},
		{name: "while the lock-delay of its leader passes", lost: true},
		{name: "and another Delete is faster", lost: true, another: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				connect := func() *onzk.Conn {
					return s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				}
				one, two := connect(), connect()
				defer two.Close()
				a := s.nominate(one, "a")
				becomes(t, a, election.Leading)
				electiontest.Resign(a)
				restore := s.zoo.Save() // nobody leads
				a = s.nominate(one, "a")
				becomes(t, a, election.Leading)
				if c.lost {
					session, _ := one.Credentials()
					s.zoo.End(session)
					<-a.Done()
				}
				deletes := func(over *onzk.Conn) <-chan error {
					deleted := make(chan error, 1)
					go func() { deleted <- s.operator(over).Delete(t.Context()) }()
					time.Sleep(2 * time.Second)
					return deleted
				}
				all := []<-chan error{deletes(two)}
				s.zoo.Stop()
				restore()
				a.Drained()
				one.Close()
				s.zoo.Start()
				three := connect()
				defer three.Close()
				b := s.nominate(three, "b")
				becomes(t, b, election.Leading)
				if c.another {
					all = append(all, deletes(three))
				}
				becomes(t, b, election.Draining)
				time.Sleep(time.Minute)
				for i, deleted := range all {
					if len(deleted) > 0 {
						t.Errorf("Delete %d is done beside a leader that is %v", i, b.State().Get())
					}
				}
				b.Drained()
				<-b.Done()
				for _, deleted := range all {
					must(t, <-deleted)
				}
				if left := s.zoo.Nodes(onzk.DefaultRoot + "/demo"); len(left) > 0 {
					t.Errorf("there are %v", left)
				}
			})
		})
	}
}
