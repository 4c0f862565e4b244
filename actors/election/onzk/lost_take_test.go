package onzk_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// lostTake is a connection that loses the answer to the next take, and breaks, once armed is set.
type lostTake struct {
	net.Conn
	armed *atomic.Bool
	lost  atomic.Bool // what comes from now on
}

func (c *lostTake) Write(request []byte) (int, error) {
	if isTake(request) && c.armed.CompareAndSwap(true, false) {
		c.lost.Store(true)
	}
	return c.Conn.Write(request)
}

func (c *lostTake) Read(answer []byte) (int, error) {
	n, err := c.Conn.Read(answer)
	if c.lost.Load() {
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

// The answer to a take is lost, and a stranger keeps the data of the leader's node to himself. The
// term says whose that node is.
func TestATakeWhoseAnswerIsLostIsFoundByTheTerm(t *testing.T) {
	for _, c := range []struct {
		name    string
		resigns bool
	}{{name: "it leads"}, {name: "it leaves", resigns: true}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				one := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer one.Close()
				first := s.nominate(one, "first")
				becomes(t, first, election.Leading)
				server := &denying{Way: s.zoo.Way(devzookeeper.Weather{}),
					kinds: []uint32{kindRead}}
				var armed atomic.Bool
				two := s.connect(onzk.Config{Dial: over(server.Dial, func(c net.Conn) net.Conn {
					return &lostTake{Conn: c, armed: &armed}
				})})
				defer two.Close()
				next := s.nominate(two, "next")
				becomes(t, next, election.Following)
				last := s.nominate(one, "last")
				becomes(t, last, election.Following)
				time.Sleep(time.Minute)
				path := "/demo/leader"
				server.path.Store(&path)
				armed.Store(true)
				first.Resign()
				if c.resigns {
					for armed.Load() {
						time.Sleep(100 * time.Microsecond)
					}
				} else {
					time.Sleep(onzk.DefaultSessionTimeout / 2)
					if now := next.State().Get(); now.Role != election.Leading {
						t.Errorf("whose answer was lost is %v", now)
					}
				}
				next.Resign()
				next.Drained()
				time.Sleep(onzk.DefaultSessionTimeout / 2)
				if now := last.State().Get(); now.Role != election.Leading {
					t.Errorf("the one behind it is %v, and there are %v", now,
						s.zoo.Nodes(onzk.DefaultRoot+"/demo"))
				}
				server.path.Store(nil)
				electiontest.Resign(first, next, last)
			})
		})
	}
}
