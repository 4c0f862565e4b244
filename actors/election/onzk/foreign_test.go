package onzk_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The name and the root of an election are another program's node by mistake. Whoever stands for it
// is refused, as is who gives an order, and the program's nodes stay as they are.
func TestNobodyStandsOnTheNodeOfAnotherProgram(t *testing.T) {
	for what, theirs := range map[string]map[string]string{
		"with data":              {"": "another program's"},
		"with data that has ids": {"": `{"id":"7f3a","host":"db1"}`},
		"with a setting":         {"": "", "/setting": "x=1"},
		"whose leader is below":  {"": "", "/leader": "", "/leader/latch-0000000000": "db1"},
		"with an order":          {"": "", "/yield": "north"},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				s.zoo.Write("/team", nil)
				s.zoo.Write("/team/program", nil)
				for path, data := range theirs {
					s.zoo.Write("/team/program"+path, []byte(data))
				}
				before := s.zoo.Nodes("/team")
				m := &team{t: t, s: s}
				defer m.leave()
				for _, name := range []string{"a", "b"} {
					e, _ := m.stands("/team", "program", name)
					refused(t, e)
				}
				cfg := onzk.Config{Root: "/team", Servers: addresses, Logger: s.log,
					Dial: s.zoo.Way(devzookeeper.Weather{}).Dial}
				conn := s.connect(cfg)
				defer conn.Close()
				e, err := election.New(conn, election.Config{Election: "program", Logger: s.log})
				must(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				orders, err := conn.Open("program")
				must(t, err)
				_, departs := onzk.Depart(ctx, cfg, "program", "0x1")
				for what, err := range map[string]error{"end": e.End(ctx), "departure": departs,
					"hand-over": orders.HandOver(ctx, "a", 0), "deletion": e.Delete(ctx)} {
					if !errors.Is(err, election.ErrInvalid) {
						t.Errorf("the %s is answered with %v", what, err)
					}
				}
				time.Sleep(time.Minute)
				if after := s.zoo.Nodes("/team"); !maps.EqualFunc(before, after, sameData) {
					t.Errorf("there were %v, and now there are %v", before, after)
				}
			})
		})
	}
}

func sameData(a, b devzookeeper.Node) bool { return string(a.Data) == string(b.Data) }

// The node of an election was made by hand, and nobody may write its data. So it never gets an
// identity. Candidates stand for it all the same, one beside the others.
func TestAnElectionWhoseNodeNobodyMayWriteIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		base := onzk.DefaultRoot
		for _, path := range []string{"/coordd", base, base + "/demo"} {
			s.zoo.Write(path, nil)
		}
		server := &denying{Way: s.zoo.Way(devzookeeper.Weather{})}
		identities := "/demo/_e_"
		server.path.Store(&identities)
		conn := s.connect(onzk.Config{Dial: server.Dial})
		defer conn.Close()
		var standing []election.Backend
		for _, id := range []string{"a", "b"} { // both before anybody leads
			b, err := conn.Open("demo")
			must(t, err)
			_, err = b.Join(t.Context(), election.Candidate{ID: id, Name: id})
			must(t, err)
			standing = append(standing, b)
		}
		c := s.nominate(conn, "c")
		becomes(t, c, election.Following)
		for _, b := range standing {
			must(t, b.Leave(t.Context()))
		}
		becomes(t, c, election.Leading)
		electiontest.Resign(c)
	})
}
