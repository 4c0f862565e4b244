package onzk_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The root of one connection is the name of an election of another, or another program's node: to
// delete that election deletes nothing of others.
func TestDeleteRemovesNothingOfOthersBelowItsName(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		links, elections := []*onzk.Conn{}, []*election.Election{}
		participant := func(root, name string) *election.Election {
			conn := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial, Root: root})
			e, err := election.New(conn, election.Config{Election: name, Name: "n",
				Logger: s.log})
			must(t, err)
			links, elections = append(links, conn), append(elections, e)
			return e
		}
		for _, name := range []string{"demo", "leader", "term", "yield"} {
			e := participant("/team/db", name)
			if _, err := e.Nominate(t.Context()); err != nil {
				t.Fatal(err)
			}
			becomes(t, e, election.Leading)
		}
		led := len(elections)
		s.zoo.Write("/team/program", []byte("another program's"))
		s.zoo.Write("/team/program/setting", nil)
		before := s.zoo.Nodes("/team")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, name := range []string{"db", "program"} {
			if err := participant("/team", name).Delete(ctx); !errors.Is(err, election.ErrInvalid) {
				t.Errorf("%s was deleted: %v", name, err)
			}
		}
		if err := participant("/team", "program").End(ctx); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("the program's node was ended: %v", err)
		}
		time.Sleep(time.Minute)
		if after := s.zoo.Nodes("/team"); !maps.EqualFunc(before, after,
			func(a, b devzookeeper.Node) bool { return string(a.Data) == string(b.Data) }) {
			t.Errorf("there were %v, and now there are %v", before, after)
		}
		for i, e := range elections {
			if i < led {
				e.Resign()
				<-e.Done()
				if err := e.Delete(ctx); err != nil {
					t.Error(err)
				}
			}
			links[i].Close()
		}
	})
}
