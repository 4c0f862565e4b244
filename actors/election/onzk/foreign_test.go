package onzk_test

import (
	"context"
	"errors"
	"maps"
	"strings"
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

// ghost is the name of a candidate's node.
var ghost = "_c_" + strings.Repeat("f", 32) + "-p7-n0000000000"

func sameData(a, b devzookeeper.Node) bool { return string(a.Data) == string(b.Data) }

// A node is an election's by any one of its signs, also if its data is no record; and an empty node
// is taken, though the probe of one that gives it an identity is in it.
func TestANodeIsAnElectionsByAnyOfItsSigns(t *testing.T) {
	for child, data := range map[string]string{"_e_before": "?", "term": "?", ghost: "?",
		"_p_now": ""} {
		t.Run(child, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				for _, path := range []string{"/team", "/team/db", "/team/db/" + child} {
					s.zoo.Write(path, nil)
				}
				s.zoo.Write("/team/db", []byte(data))
				m := &team{t: t, s: s}
				defer m.leave()
				e, _ := m.stands("/team", "db", "a")
				becomes(t, e, election.Leading)
			})
		})
	}
}

// unwritable makes the node of an election by hand, whose data nobody may write who connects the
// way that is returned. So it never gets an identity.
func (s *embedded) unwritable() onzk.Config {
	base := onzk.DefaultRoot
	for _, path := range []string{"/coordd", base, base + "/demo"} {
		s.zoo.Write(path, nil)
	}
	server := &denying{Way: s.zoo.Way(devzookeeper.Weather{})}
	identities := "/demo/_e_"
	server.path.Store(&identities)
	return onzk.Config{Dial: server.Dial}
}

// Candidates stand for such an election all the same, one beside the others.
func TestAnElectionWhoseNodeNobodyMayWriteIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		conn := s.connect(s.unwritable())
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

// A stranger removes the term of such an election. Its candidates show that it is one.
func TestATermThatWasRemovedIsMadeAgainBesideCandidates(t *testing.T) {
	for _, what := range []string{"resigns", "comes back"} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				conn := s.connect(s.unwritable())
				defer conn.Close()
				a := s.nominate(conn, "a")
				becomes(t, a, election.Leading)
				b := s.nominate(conn, "b")
				becomes(t, b, election.Following)
				s.zoo.Remove(onzk.DefaultRoot + "/demo/term")
				time.Sleep(time.Second)
				if what == "resigns" {
					a.Resign()
					becomes(t, b, election.Leading)
				} else {
					s.zoo.Stop()
					becomes(t, a, election.Uncertain)
					s.zoo.Start()
					becomes(t, a, election.Leading)
				}
				electiontest.Resign(a, b)
			})
		})
	}
}

// Nor is an election removed of which nothing else is left, by who stands for the one around.
func TestCandidatesShowThatTheNodeBelowIsAnElection(t *testing.T) {
	for name, paths := range map[string][]string{
		"candidates":         {"", "/db", "/db/term", "/db/yield", "/db/yield/" + ghost},
		"deep below a field": {"", "/db", "/db/term", "/db/leader", "/db/leader/x", "/db/leader/x/term"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				for _, path := range paths {
					s.zoo.Write("/team"+path, nil)
				}
				below := "/team" + paths[len(paths)-2]
				before := s.zoo.Nodes(below)
				m := &team{t: t, s: s}
				defer m.leave()
				x, _ := m.stands("/team", "db", "x")
				refused(t, x)
				if after := s.zoo.Nodes(below); !maps.EqualFunc(before, after, sameData) {
					t.Errorf("there were %v, and now there are %v", before, after)
				}
			})
		})
	}
}
