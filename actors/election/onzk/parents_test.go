package onzk_test

import (
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// An administrator keeps / and /apps to himself, and gives a team the node /apps/team. ZooKeeper
// says that nothing may be created in a node before it says that it is there already.
func TestElectionsAreHeldBelowTheOnlyNodeThatOneMayWrite(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		for _, path := range []string{"/apps", "/apps/team"} {
			s.zoo.Write(path, nil)
		}
		s.zoo.Keep("/")
		s.zoo.Keep("/apps")
		conn := s.connect(onzk.Config{Root: "/apps/team/of/elections",
			Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer conn.Close()
		e := s.nominate(conn, "a")
		becomes(t, e, election.Leading)
		electiontest.Resign(e)
	})
}
