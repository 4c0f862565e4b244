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

// The name and the root of an election are another program's node by mistake. Candidates and orders
// are refused, and the program's nodes stay as they are.
func TestNobodyStandsOnTheNodeOfAnotherProgram(t *testing.T) {
	const record = `{"id":"IJ","writes":0}`
	for what, theirs := range map[string]map[string]string{
		"with data":              {"": "another program's"},
		"without data":           {"": ""},
		"beside an election":     {"": record, "/_e_IJ": "", "/setting": "x=1"},
		"with elections below":   {"": "", "/db": record, "/db/_e_IJ": ""},
		"which cannot be parsed": {"": `{"writes":`},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				s.zoo.Write("/team", nil)
				s.zoo.Write("/team/program", nil)
				for path, data := range theirs {
					s.zoo.Write("/team/program"+path, []byte(data))
				}
				before := s.zoo.Nodes("/team")
				cfg := onzk.Config{Root: "/team", Servers: addresses, Logger: s.log,
					Dial: s.zoo.Way(devzookeeper.Weather{}).Dial}
				conn := s.connect(cfg)
				defer conn.Close()
				e := s.nominateIn("program", conn, "a")
				<-e.Done()
				if !errors.Is(e.Err(), election.ErrInvalid) {
					t.Errorf("a candidate ends with %v", e.Err())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := e.Delete(ctx); !errors.Is(err, election.ErrInvalid) {
					t.Errorf("the deletion is answered with %v", err)
				}
				same := func(a, b devzookeeper.Node) bool { return string(a.Data) == string(b.Data) }
				after := s.zoo.Nodes("/team")
				if what == "beside an election" { // the deletion has ended it
					delete(before, "program")
					delete(after, "program")
				}
				if !maps.EqualFunc(before, after, same) {
					t.Errorf("there were %v, and now there are %v", before, after)
				}
			})
		})
	}
}

// A candidate is told at once what it may not, and ends after half a minute.
func TestACandidateThatLacksARightIsToldAtOnceAndEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		conn := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer conn.Close()
		a := s.nominate(conn, "a")
		becomes(t, a, election.Leading)
		s.zoo.Keep(onzk.DefaultRoot + "/demo")
		b := s.nominate(conn, "b")
		time.Sleep(time.Second)
		if now := b.State().Get(); now.What != election.Waiting || now.Reason == "" {
			t.Errorf("after a second it is told %v", now)
		}
		time.Sleep(40 * time.Second)
		if err := b.Err(); !errors.Is(err, election.ErrDenied) {
			t.Errorf("after 41 s it ends with %v", err)
		}
		electiontest.Resign(a)
	})
}
