package onzk_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// denying is a way to servers that deny requests of some kind, all transactions by default, on the
// nodes of an election while path, which they have in their names, is not nil.
type denying struct {
	*devzookeeper.Way
	path  atomic.Pointer[string]
	kinds []uint32
}

// The kinds of requests.
const (
	kindRead   = 4
	kindList   = 12
	kindCommit = 14
)

func (d *denying) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	return over(d.Way.Dial, func(c net.Conn) net.Conn {
		return &deniedConn{Conn: c, server: d}
	})(network, address, timeout)
}

type deniedConn struct {
	net.Conn
	server *denying
	denied sync.Map // the numbers of requests
}

func (c *deniedConn) Write(request []byte) (int, error) {
	const exists = 3
	path, kinds := c.server.path.Load(), c.server.kinds
	if kinds == nil {
		kinds = []uint32{kindCommit}
	}
	if path == nil || !bytes.Contains(request, []byte(*path)) ||
		!slices.ContainsFunc(kinds, func(kind uint32) bool {
			_, is := isOf(request, kind)
			return is
		}) {
		return c.Conn.Write(request)
	}
	xid := binary.BigEndian.Uint32(request[4:])
	c.denied.Store(xid, true)
	_, err := c.Conn.Write(packet(xid, int32(exists), int32(1), byte('/'), byte(0)))
	return len(request), err
}

func (c *deniedConn) Read(answer []byte) (int, error) {
	n, err := c.Conn.Read(answer)
	if n >= 16 {
		if _, is := c.denied.LoadAndDelete(binary.BigEndian.Uint32(answer)); is {
			noAuth := int32(-102)
			binary.BigEndian.PutUint32(answer[12:], uint32(noAuth))
		}
	}
	return n, err
}

// An administrator takes the rights to an election's nodes away from its leader. It may not give
// the leadership up then, and its session would keep it for as long as the process lives.
func TestALeaderThatIsDeniedToGiveTheLeadershipUpIsSucceeded(t *testing.T) {
	bound := 4*onzk.DefaultSessionTimeout + devzookeeper.Tick + time.Second
	for _, c := range []struct {
		name          string
		resigns, more bool
	}{{name: "it makes way"}, {name: "it resigns", resigns: true},
		{name: "another leads over its connection", more: true}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				server := &denying{Way: s.zoo.Way(devzookeeper.Weather{})}
				conn := s.connect(onzk.Config{Dial: server.Dial})
				defer conn.Close()
				a := s.nominate(conn, "a")
				becomes(t, a, election.Leading)
				var other *election.Election
				if c.more {
					other = s.nominateIn("other", conn, "a")
					becomes(t, other, election.Leading)
				}
				two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer two.Close()
				b := s.nominate(two, "b")
				becomes(t, b, election.Following)
				path := "/demo/"
				server.path.Store(&path)
				begin := time.Now()
				if c.resigns {
					a.Resign()
				} else {
					must(t, b.HandOver(t.Context(), "b"))
					becomes(t, a, election.Draining)
					a.Drained()
				}
				if c.more {
					time.Sleep(2 * bound)
					if now := other.State().Get(); now.Role != election.Leading {
						t.Errorf("the leader of the other election is %v", now)
					}
					begin = time.Now()
					other.Resign()
					<-other.Done()
				}
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				defer cancel()
				if _, err := b.State().Wait(ctx, func(s election.Status) bool {
					return s.Role == election.Leading
				}); err != nil {
					t.Errorf("after %v a is %v, and b %v", time.Since(begin), a.State().Get(),
						b.State().Get())
				}
				server.path.Store(nil)
				electiontest.Resign(a, b)
			})
		})
	}
}

// An administrator takes rights away from the one that is to lead next: another leads, and that one
// is behind it.
func TestACandidateThatIsDeniedToLeadMakesWay(t *testing.T) {
	const long = 2*onzk.DefaultSessionTimeout + 2*devzookeeper.Tick
	for _, c := range []struct {
		name, path string
		kinds      []uint32
		bound      time.Duration
		more       bool // another leads over its connection, so its session is not given up
	}{
		{name: "to lead and to leave", path: "/demo/", bound: long},
		{name: "to lead", path: "/demo/leader", more: true},
		{name: "to list the candidates", path: "/demo", kinds: []uint32{kindList}, more: true},
		{name: "to read", path: "/demo", kinds: []uint32{kindRead}, bound: long},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				one := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer one.Close()
				first := s.nominate(one, "first")
				becomes(t, first, election.Leading)
				server := &denying{Way: s.zoo.Way(devzookeeper.Weather{}), kinds: c.kinds}
				two := s.connect(onzk.Config{Dial: server.Dial})
				defer two.Close()
				denied := s.nominate(two, "denied")
				becomes(t, denied, election.Following)
				other := s.nominateIn("other", two, "denied")
				if becomes(t, other, election.Leading); !c.more {
					electiontest.Resign(other)
				}
				last := s.nominate(one, "last")
				becomes(t, last, election.Following)
				server.path.Store(&c.path)
				first.Resign()
				ctx, cancel := context.WithTimeout(t.Context(),
					cmp.Or(c.bound, onzk.DefaultSessionTimeout+3*time.Second))
				defer cancel()
				if _, err := last.State().Wait(ctx, func(s election.Status) bool {
					return s.Role == election.Leading
				}); err != nil {
					t.Errorf("the denied one is %v, and the one behind it %v", denied.State().Get(),
						last.State().Get())
				}
				if now := other.State().Get(); c.more && now.Role != election.Leading {
					t.Errorf("the leader of the other election is %v", now)
				}
				server.path.Store(nil)
				electiontest.Resign(first, last)
				if c.more { // it is a candidate still
					becomes(t, denied, election.Leading)
				}
				electiontest.Resign(denied, other)
			})
		})
	}
}

// A leadership that was taken away by hand keeps no session from being given up.
func TestALeadershipThatWasTakenAwayCountsNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		server := &denying{Way: s.zoo.Way(devzookeeper.Weather{})}
		one := s.connect(onzk.Config{Dial: server.Dial})
		defer one.Close()
		a := s.nominate(one, "a")
		becomes(t, a, election.Leading)
		two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer two.Close()
		b := s.nominate(two, "b")
		becomes(t, b, election.Following)
		loser := s.nominateIn("other", one, "loser")
		becomes(t, loser, election.Leading)
		winner := s.nominateIn("other", two, "winner")
		becomes(t, winner, election.Following)
		other := onzk.DefaultRoot + "/other/"
		children := slices.Collect(maps.Keys(s.zoo.Nodes(onzk.DefaultRoot + "/other")))
		s.zoo.Remove(other + onzk.Queue(children)[0])
		s.zoo.Remove(other + "leader")
		becomes(t, winner, election.Leading)
		path := "/demo/"
		server.path.Store(&path)
		a.Resign()
		becomes(t, b, election.Leading)
		server.path.Store(nil)
		electiontest.Resign(a, b, loser, winner)
	})
}

// A stranger makes a lasting node in the place of a leader's, or of an order to hand over, and
// keeps it to himself.
func TestWhatAStrangerKeepsToHimselfIsInNobodysWay(t *testing.T) {
	for _, name := range []string{"leader", "yield"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				server := &denying{Way: s.zoo.Way(devzookeeper.Weather{}),
					kinds: []uint32{kindRead, kindList}}
				conn := s.connect(onzk.Config{Dial: server.Dial})
				defer conn.Close()
				first := s.nominate(conn, "first")
				becomes(t, first, election.Leading)
				electiontest.Resign(first)
				path := "/demo/" + name
				make := func() {
					s.zoo.Write(onzk.DefaultRoot+path, []byte("?"))
					server.path.Store(&path)
				}
				make()
				next := s.nominate(conn, "next")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := next.State().Wait(ctx, func(s election.Status) bool {
					return s.Role == election.Leading
				}); err != nil {
					t.Errorf("the next one is %v", next.State().Get())
				}
				server.path.Store(nil)
				electiontest.Resign(next)
				make()
				if err := s.operator(conn).Delete(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A leader is denied to give its leadership up, loses it as its node is removed, and leads anew. It
// keeps its session then when another candidate of the connection is denied to leave.
func TestAnOldDenialCostsNoLeaderItsSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		server := &denying{Way: s.zoo.Way(devzookeeper.Weather{})}
		conn := s.connect(onzk.Config{Dial: server.Dial})
		defer conn.Close()
		deny := func(path string) { server.path.Store(&path) }
		a := s.nominate(conn, "a")
		becomes(t, a, election.Leading)
		other := s.nominateIn("other", conn, "a")
		becomes(t, other, election.Leading)
		two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer two.Close()
		b := s.nominate(two, "b")
		becomes(t, b, election.Following)
		deny("/demo/")
		must(t, b.HandOver(t.Context(), "b"))
		becomes(t, a, election.Draining)
		a.Drained()
		time.Sleep(2 * onzk.DefaultSessionTimeout)
		s.zoo.Remove(onzk.DefaultRoot + "/demo/leader")
		becomes(t, b, election.Leading)
		server.path.Store(nil)
		b.Resign()
		<-b.Done()
		becomes(t, a, election.Leading)
		deny("/other/")
		other.Resign()
		time.Sleep(4 * onzk.DefaultSessionTimeout)
		if now := a.State().Get(); now.Role != election.Leading {
			t.Errorf("the leader that is denied nothing is %v", now)
		}
		// It is denied for a session's timeout anew before its session is given up.
		deny("/")
		a.Resign()
		time.Sleep(onzk.DefaultSessionTimeout / 2)
		session, _ := conn.Credentials()
		time.Sleep(onzk.DefaultSessionTimeout)
		if now, _ := conn.Credentials(); session == 0 || now == session {
			t.Errorf("the session is 0x%x half a timeout after the denial, and 0x%x a timeout later",
				session, now)
		}
		server.path.Store(nil)
		<-a.Done()
	})
}
