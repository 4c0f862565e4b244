package onconsul_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
)

func TestOneElectionTooManyIsRefusedAndTheOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		conn := s.with(onconsul.Config{MaxElections: 5}, s.consul.RoundTripper())
		defer conn.Close()
		begin := func(name string) *election.Election {
			return nominated(t, conn, election.Config{Election: name, Name: "n", Logger: s.log,
				Lead: untilTold})
		}
		var all []*election.Election
		for i := range 5 {
			all = append(all, begin(fmt.Sprintf("r%d", i)))
		}
		time.Sleep(time.Second)
		e := begin("one-more")
		<-e.Done()
		if err := e.Err(); !errors.Is(err, election.ErrInvalid) ||
			!strings.Contains(err.Error(), "http_max_conns_per_client") {
			t.Errorf("one too many was told %v", err)
		}
		time.Sleep(time.Minute)
		electiontest.Resign(all[0])
		all[0] = begin("one-more") // there is room again
		time.Sleep(time.Second)
		for _, e := range all {
			if s := e.State().Get(); s.Role != election.Leading {
				t.Errorf("one of five was told %v", s)
			}
		}
		electiontest.Resign(all...)
	})
}
