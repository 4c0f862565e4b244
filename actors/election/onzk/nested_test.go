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
		if after := s.zoo.Nodes("/team"); !maps.EqualFunc(before, after, sameData) {
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

// team is the elections whose roots and names lie within each other.
type team struct {
	t         *testing.T
	s         *embedded
	links     []*onzk.Conn
	elections []*election.Election
}

// stands has somebody stand for an election.
func (m *team) stands(root, name, who string) (*election.Election, *devzookeeper.Way) {
	way := m.s.zoo.Way(devzookeeper.Weather{})
	conn := m.s.connect(onzk.Config{Dial: way.Dial, Root: root})
	e, err := election.New(conn, election.Config{Election: name, Name: who, Logger: m.s.log})
	must(m.t, err)
	_, err = e.Nominate(m.t.Context())
	must(m.t, err)
	m.links, m.elections = append(m.links, conn), append(m.elections, e)
	return e, way
}

func (m *team) leave() {
	electiontest.Resign(m.elections...)
	for _, c := range m.links {
		c.Close()
	}
}

// refused waits until somebody is told that the election cannot be had under that name and root.
func refused(t *testing.T, e *election.Election) {
	t.Helper()
	select {
	case <-e.Done():
	case <-time.After(time.Minute):
	}
	if err := e.State().Get().Err; !errors.Is(err, election.ErrInvalid) {
		t.Errorf("the candidate of the election around, or within, is told %v", e.State().Get())
	}
}

// The node of an election is the root of another, which has the name of one of the first one's own
// nodes. Whoever comes second is refused, and the other election goes on as if nobody had come.
func TestACandidateRemovesNothingOfOthersBelowItsName(t *testing.T) {
	for _, name := range []string{"leader", "term", "yield"} {
		for _, first := range []string{"within", "around"} {
			t.Run(name+" "+first, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *embedded) {
					m := &team{t: t, s: s}
					defer m.leave()
					root, its, other, others := "/team/db", name, "/team", "db"
					if first == "around" {
						root, its, other, others = other, others, root, its
					}
					a, _ := m.stands(root, its, "a")
					token := becomes(t, a, election.Leading).Token
					b, _ := m.stands(root, its, "b")
					becomes(t, b, election.Following)
					time.Sleep(time.Second)
					node := root + "/" + its
					before := s.zoo.Nodes(node)
					before[""] = s.zoo.Nodes(root)[its]
					x, _ := m.stands(other, others, "x")
					refused(t, x)
					time.Sleep(time.Minute)
					after := s.zoo.Nodes(node)
					after[""] = s.zoo.Nodes(root)[its]
					for path, was := range before {
						if is, there := after[path]; !there || string(is.Data) != string(was.Data) {
							t.Errorf("%q held %q, and now %q (%t)", path, was.Data, is.Data, there)
						}
					}
					if now := a.State().Get(); now.Role != election.Leading || now.Token != token {
						t.Errorf("the leader is %v", now)
					}
					a.Resign()
					becomes(t, b, election.Leading)
				})
			})
		}
	}
}

// Nor does an order for it touch the node, which is the other one's.
func TestAnOrderTouchesNoNodeOfTheElectionAround(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		m := &team{t: t, s: s}
		defer m.leave()
		x, _ := m.stands("/team", "db", "x")
		becomes(t, x, election.Leading)
		cfg := onzk.Config{Root: "/team/db", Servers: addresses, Logger: s.log,
			Dial: s.zoo.Way(devzookeeper.Weather{}).Dial}
		conn := s.connect(cfg)
		defer conn.Close()
		before := s.zoo.Nodes("/team")
		for _, name := range []string{"leader", "term", "yield"} {
			e, err := election.New(conn, election.Config{Election: name, Logger: s.log})
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, departs := onzk.Depart(ctx, cfg, name, m.links[0].Contact().Get().Session)
			for what, err := range map[string]error{"end": e.End(ctx), "departure": departs} {
				if !errors.Is(err, election.ErrInvalid) {
					t.Errorf("%s: the %s is answered with %v", name, what, err)
				}
			}
			_ = e.Delete(ctx) // where there is no such node, there is nothing to do
			if err := e.HandOver(ctx, "x"); err == nil {
				t.Errorf("%s: it was handed over", name)
			}
		}
		if after := s.zoo.Nodes("/team"); !maps.EqualFunc(before, after, sameData) {
			t.Errorf("there were %v, and now there are %v", before, after)
		}
		if now := x.State().Get(); now.Role != election.Leading {
			t.Errorf("the leader is %v", now)
		}
	})
}

// As above, where the election around has no identity any more.
func TestAHandOverWritesIntoNoElectionBelow(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		m := &team{t: t, s: s}
		defer m.leave()
		x, _ := m.stands("/team", "db", "x")
		becomes(t, x, election.Leading)
		y, _ := m.stands("/team", "db", "y")
		becomes(t, y, election.Following)
		s.zoo.Write("/team/db", nil)
		a, _ := m.stands("/team/db", "yield", "a")
		becomes(t, a, election.Leading)
		before := s.zoo.Nodes("/team/db")["yield"].Data
		if err := x.HandOver(t.Context(), "y"); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("the hand-over is answered with %v", err)
		}
		if now := s.zoo.Nodes("/team/db")["yield"].Data; string(now) != string(before) {
			t.Errorf("the other election's node held %q, and now %q", before, now)
		}
	})
}

// The leader of the election within is cut off when somebody stands for the one around, and another
// comes anew. Had the record of the lock-delay been removed with the rest, both would lead.
func TestOneLeadsWhereSomebodyStandsForTheElectionAround(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		m := &team{t: t, s: s}
		defer m.leave()
		a, way := m.stands("/team/db", "yield", "a")
		becomes(t, a, election.Leading)
		x, _ := m.stands("/team", "db", "x")
		time.Sleep(9 * time.Second)
		way.Sever()
		refused(t, x)
		c, _ := m.stands("/team/db", "yield", "c")
		got := becomes(t, c, election.Leading)
		if now := a.State().Get(); now.Role == election.Leading {
			t.Errorf("c leads with token %d, and a leads with token %d", got.Token, now.Token)
		}
		way.Mend(true)
	})
}
