package onzk_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// refusedTake is a connection that breaks before the next take is there, once armed is set. Its
// servers refuse the credentials from then on.
type refusedTake struct {
	net.Conn
	server *refusing
	armed  *atomic.Bool
}

func (c *refusedTake) Write(request []byte) (int, error) {
	if isTake(request) && c.armed.CompareAndSwap(true, false) {
		c.server.refuses.Store(true)
		_ = c.Conn.Close()
		return len(request), nil
	}
	return c.Conn.Write(request)
}

// A take waits for a connection while the credentials are refused, for which its session is given
// up. It is sent over the next session, where it wins by the candidate's node, which is there until
// ZooKeeper ends the old session. The candidate gives up what it has won.
func TestATakeThatWinsInTheNextSessionIsGivenUp(t *testing.T) {
	if racing {
		t.Skip("the client races with itself: see racing")
	}
	bubble(t, func(t *testing.T, s *embedded) {
		const digest = "coordd:secret"
		one := s.connect(onzk.Config{Digest: digest,
			Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer one.Close()
		a := s.nominate(one, "a")
		becomes(t, a, election.Leading)
		server := &refusing{Way: s.zoo.Way(devzookeeper.Weather{})}
		var armed atomic.Bool
		two := s.connect(onzk.Config{Digest: digest, Servers: threeAddresses,
			Dial: over(server.Dial, func(c net.Conn) net.Conn {
				return &refusedTake{c, server, &armed}
			})})
		defer two.Close()
		b := s.nominate(two, "b")
		becomes(t, b, election.Following)
		c := s.nominate(one, "c")
		becomes(t, c, election.Following)
		time.Sleep(time.Minute)
		old := two.Contact().Get().Session
		armed.Store(true)
		a.Resign()
		_, err := two.Contact().Wait(t.Context(), func(c election.Contact) bool {
			return c.Session != "" && c.Session != old
		})
		must(t, err)
		time.Sleep(time.Second)
		server.refuses.Store(false)
		becomes(t, c, election.Leading)
		electiontest.Resign(a, b, c)
	})
}
