package onzk_test

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// gate holds the first write that matches, and all after it, until it is opened.
type gate struct {
	match []byte
	once  sync.Once
	held  chan struct{}
	free  chan struct{}
}

// gated is a connection whose first request that holds match waits at the gate.
func (s *embedded) gated(way *devzookeeper.Way, match string) (*onzk.Conn, *gate) {
	g := &gate{match: []byte(match), held: make(chan struct{}), free: make(chan struct{})}
	return s.connect(onzk.Config{Dial: func(network, address string,
		timeout time.Duration) (net.Conn, error) {
		c, err := way.Dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return &gated{c, g}, nil
	}}), g
}

// operator gives orders to the election demo.
func (s *embedded) operator(over election.Connection) *election.Election {
	s.t.Helper()
	e, err := election.New(over, election.Config{Election: "demo", Logger: s.log})
	must(s.t, err)
	return e
}

type gated struct {
	net.Conn
	g *gate
}

func (c *gated) Write(b []byte) (int, error) {
	if bytes.Contains(b, c.g.match) {
		c.g.once.Do(func() {
			close(c.g.held)
			<-c.g.free
		})
	}
	return c.Conn.Write(b)
}

// The write of a Delete is lost with its connection. Until there is another connection, another
// Delete is quicker, and there is another election of that name.
func TestADeleteThatIsTriedAgainMissesTheNextElection(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		quick := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer quick.Close()
		way := s.zoo.Way(devzookeeper.Weather{})
		slow, g := s.gated(way, `"deleted":true`)
		first := s.nominate(quick, "first")
		becomes(t, first, election.Leading)
		over := make(chan error, 1)
		go func() { over <- s.operator(slow).Delete(t.Context()) }()
		<-g.held
		way.Sever()
		close(g.free)
		first.Resign()
		<-first.Done()
		must(t, s.operator(quick).Delete(t.Context()))
		next := s.nominate(quick, "next")
		becomes(t, next, election.Leading)
		time.Sleep(time.Second)
		way.Mend(true)
		time.Sleep(10 * time.Second)
		if now := next.State().Get(); now.Role != election.Leading {
			t.Errorf("the Delete of the election before has ended this one: %v", now)
		}
		next.Resign()
		<-next.Done()
		t.Logf("the first Delete: %v", <-over)
		slow.Close()
	})
}

// An order to hand over is late. By then there is another election of that name, and whom it names
// is a candidate of that one too.
func TestAHandOverThatIsTriedAgainMissesTheNextElection(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		quick := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer quick.Close()
		stand := func() election.Backend {
			b, err := quick.Open("demo")
			must(t, err)
			_, err = b.Join(t.Context(), election.Candidate{ID: "chosen", Name: "chosen"})
			must(t, err)
			return b
		}
		first := s.nominate(quick, "first")
		becomes(t, first, election.Leading)
		chosen := stand()
		slow, g := s.gated(s.zoo.Way(devzookeeper.Weather{}), `"hand_over"`)
		defer slow.Close()
		orders, err := slow.Open("demo")
		must(t, err)
		over := make(chan error, 1)
		go func() { over <- orders.HandOver(t.Context(), "chosen", 0) }()
		<-g.held
		must(t, chosen.Leave(t.Context()))
		first.Resign()
		<-first.Done()
		must(t, s.operator(quick).Delete(t.Context()))
		next := s.nominate(quick, "next")
		becomes(t, next, election.Leading)
		chosen = stand()
		close(g.free)
		if err := <-over; !errors.Is(err, election.ErrNoLeader) {
			t.Errorf("the order is answered with %v", err)
		}
		time.Sleep(time.Second)
		if now := next.State().Get(); now.Role != election.Leading {
			t.Errorf("the order to the leader of the election before has deposed this one: %v", now)
		}
		must(t, chosen.Leave(t.Context()))
		next.Resign()
		<-next.Done()
	})
}
