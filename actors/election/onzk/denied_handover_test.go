package onzk_test

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/go-zookeeper/zk"
)

// Who may write the leader's record and not read it does not write over it by a hand-over.
func TestAHandOverWritesOverNoRecordThatItMayNotRead(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		one := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer one.Close()
		first := s.nominate(one, "first")
		becomes(t, first, election.Leading)
		next := s.nominate(one, "next")
		becomes(t, next, election.Following)
		before := s.zoo.Nodes(onzk.DefaultRoot)["demo/leader"].Data
		server := &denying{Way: s.zoo.Way(devzookeeper.Weather{}), kinds: []uint32{kindRead}}
		path := "/demo/leader"
		server.path.Store(&path)
		two := s.connect(onzk.Config{Dial: server.Dial})
		defer two.Close()
		err := s.operator(two).HandOver(t.Context(), next.State().Get().Self.ID)
		after := s.zoo.Nodes(onzk.DefaultRoot)["demo/leader"].Data
		if !errors.Is(err, zk.ErrNoAuth) || string(after) != string(before) {
			t.Errorf("it is answered with %v; the record was %s, and is %s", err, before, after)
		}
		electiontest.Resign(first, next)
	})
}
