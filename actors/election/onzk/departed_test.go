package onzk_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// holding is a connection that keeps its first request of a kind, and all after it, until free is
// closed.
type holding struct {
	net.Conn
	kind       uint32
	held, free chan struct{}
}

func (h *holding) Write(request []byte) (int, error) {
	if len(request) >= 12 && binary.BigEndian.Uint32(request[8:]) == h.kind {
		select {
		case <-h.held:
		default:
			close(h.held)
			<-h.free
		}
	}
	return h.Conn.Write(request)
}

// The departure of a dead leader waits before it looks for that leader's place. By the time that it
// goes on, that leader's session has ended, its place has gone, and another leads.
func TestADepartureThatWaitsForItsListMissesTheNextLeader(t *testing.T) {
	if err := lateDeparture(t); err != nil {
		t.Error(err)
	}
}

func lateDeparture(t *testing.T) (err error) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.zoo.Close()
		connect := func() *onzk.Conn {
			return s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial,
				LockDelay: -1})
		}
		dead, next := connect(), connect()
		defer dead.Close()
		defer next.Close()
		a := s.nominate(dead, "a")
		becomes(t, a, election.Leading)
		b := s.nominate(next, "b")
		becomes(t, b, election.Following)
		session, _ := dead.Credentials()
		held, free := make(chan struct{}), make(chan struct{})
		const list = 12 // the kind of a request for the children of a node
		cfg := onzk.Config{Servers: addresses, Logger: s.log, Dial: func(network, address string,
			timeout time.Duration) (net.Conn, error) {
			c, err := s.zoo.Way(devzookeeper.Weather{}).Dial(network, address, timeout)
			if err != nil {
				return nil, err
			}
			return &holding{c, list, held, free}, nil
		}}
		departed := make(chan error, 1)
		go func() {
			_, err := onzk.Depart(t.Context(), cfg, "demo", fmt.Sprintf("0x%x", uint64(session)))
			departed <- err
		}()
		<-held
		s.zoo.End(session)
		token := becomes(t, b, election.Leading).Token
		close(free)
		if err := <-departed; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if now := b.State().Get(); now.Role != election.Leading || now.Token != token {
			err = fmt.Errorf("the departure of the leader before has deposed this one: %v", now)
		}
		for _, e := range []*election.Election{a, b} {
			e.Resign()
			<-e.Done()
		}
	})
	return err
}
