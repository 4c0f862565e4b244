package onzk_test

import (
	"testing"

	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A Delete over a connection whose server has not heard of the election removes it all the same.
func TestADeleteOverAServerThatIsBehindRemovesTheElection(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		quick := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer quick.Close()
		slow := s.behind()
		defer slow.Close()
		must(t, s.operator(quick).End(t.Context()))
		must(t, s.operator(slow).Delete(t.Context()))
		if left := s.zoo.Nodes(onzk.DefaultRoot + "/demo"); len(left) > 0 {
			t.Errorf("there are %v", left)
		}
	})
}
