package onzk_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// refusingTakes is a way to servers that refuse the credentials from the next take on, which breaks
// its connection before it is there.
type refusingTakes struct {
	*refusing
	armed atomic.Bool
}

func (r *refusingTakes) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := r.refusing.Dial(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &refusedTake{c, r}, nil
}

type refusedTake struct {
	net.Conn
	server *refusingTakes
}

func (c *refusedTake) Write(request []byte) (int, error) {
	if _, is := isOf(request, kindCommit); is && bytes.Contains(request, []byte("/demo/leader")) &&
		c.server.armed.CompareAndSwap(true, false) {
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
		server := &refusingTakes{refusing: &refusing{Way: s.zoo.Way(devzookeeper.Weather{})}}
		two := s.connect(onzk.Config{Digest: digest, Dial: server.Dial, Servers: threeAddresses})
		defer two.Close()
		b := s.nominate(two, "b")
		becomes(t, b, election.Following)
		c := s.nominate(one, "c")
		becomes(t, c, election.Following)
		time.Sleep(time.Minute)
		old := two.Contact().Get().Session
		server.armed.Store(true)
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
