package onzk_test

import (
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The nodes of an election are removed by hand, and another program has its node there at once,
// which it may keep to itself. Who led, or stood, has nothing to give up then.
func TestNobodyHasAnythingToGiveUpInTheNodeOfAnotherProgram(t *testing.T) {
	const theirs = "another program's"
	for what, kinds := range map[string][]uint32{"all may read": {},
		"kept to itself": {kindRead, kindList}} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				server := &denying{Way: s.zoo.Way(devzookeeper.Weather{}), kinds: kinds}
				conn := s.connect(onzk.Config{Dial: server.Dial})
				defer conn.Close()
				var all []election.Backend
				for _, id := range []string{"leader", "follower"} {
					b, err := conn.Open("demo")
					must(t, err)
					_, err = b.Join(t.Context(), election.Candidate{ID: id, Name: id})
					must(t, err)
					all = append(all, b)
				}
				_, _, err := all[0].Take(t.Context())
				must(t, err)
				s.zoo.Remove(onzk.DefaultRoot + "/demo")
				s.zoo.Write(onzk.DefaultRoot+"/demo", []byte(theirs))
				itself := "/demo\x00" // and nothing below
				server.path.Store(&itself)
				must(t, all[0].Release(t.Context()))
				for _, b := range all {
					must(t, b.Leave(t.Context()))
				}
				if now := s.zoo.Nodes(onzk.DefaultRoot)["demo"]; string(now.Data) != theirs {
					t.Errorf("the node holds %q", now.Data)
				}
			})
		})
	}
}
