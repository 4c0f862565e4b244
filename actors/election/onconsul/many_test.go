package onconsul_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
)

func TestOneElectionTooManyIsRefusedAndTheOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		client := devconsul.ClientOver(s.consul.RoundTripper())
		conn, err := onconsul.Connect(onconsul.Config{Client: client, MaxElections: 5,
			Logger: s.log})
		must(t, err)
		defer conn.Close()
		begin := func(name string, follow bool) *election.Election {
			e, err := election.New(conn, election.Config{Election: name, Name: "n", Logger: s.log})
			must(t, err)
			start := e.Nominate
			if follow {
				start = e.Follow
			}
			if _, err := start(t.Context()); err != nil {
				t.Fatal(err)
			}
			return e
		}
		var all []*election.Election
		for i := range 5 {
			all = append(all, begin(fmt.Sprintf("r%d", i), false))
		}
		time.Sleep(time.Second)
		for _, follow := range []bool{false, true} {
			e := begin("one-more", follow)
			<-e.Done()
			if err := e.Err(); !errors.Is(err, election.ErrInvalid) ||
				!strings.Contains(err.Error(), "http_max_conns_per_client") {
				t.Errorf("one too many (a follower: %v) was told %v", follow, err)
			}
		}
		time.Sleep(time.Minute)
		for _, e := range all {
			if s := e.State().Get(); s.Role != election.Leading {
				t.Errorf("one of the others was told %v", s)
			}
		}
		all[0].Resign()
		<-all[0].Done()
		e := begin("one-more", false) // there is room again
		time.Sleep(time.Second)
		if s := e.State().Get(); s.Role != election.Leading {
			t.Errorf("after one has ended the next one was told %v", s)
		}
		for _, e := range append(all, e) {
			e.Resign()
			<-e.Done()
		}
	})
}
