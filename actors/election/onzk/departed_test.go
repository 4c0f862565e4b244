package onzk_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
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
		electiontest.Resign(a, b)
	})
	return err
}

// A dead leader's guard departs for it, and the next candidate leads at once: whatever a stranger
// has written over the leader's record, and wherever the session has another place. Nobody else's
// place is given up.
func TestADepartureGivesUpAllPlacesOfTheSessionAndNoOthers(t *testing.T) {
	const nonsense = "?"
	for what, c := range map[string]struct {
		record string // what a stranger writes over the leader's, ID for b's id; empty: nothing
		second bool   // the dead process has a second candidate
	}{
		"a record that cannot be read":     {record: nonsense},
		"a record that names another":      {record: `{"id":"ID","name":"b"}`},
		"a second candidate":               {second: true},
		"that, and a record of a stranger": {record: nonsense, second: true},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				way := s.zoo.Way(devzookeeper.Weather{})
				dead := s.connect(onzk.Config{Dial: way.Dial})
				died := []*election.Election{s.nominate(dead, "a")}
				becomes(t, died[0], election.Leading)
				if c.second {
					died = append(died, s.nominate(dead, "a2"))
					becomes(t, died[1], election.Following)
				}
				living := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer living.Close()
				next := s.nominate(living, "b")
				becomes(t, next, election.Following)
				if c.record != "" {
					record := strings.ReplaceAll(c.record, "ID", next.State().Get().Self.ID)
					_, err := living.ZK().Set(onzk.DefaultRoot+"/demo/leader", []byte(record), -1)
					must(t, err)
				}
				queue := func() []string {
					nodes, _, err := living.ZK().Children(onzk.DefaultRoot + "/demo")
					must(t, err)
					return onzk.Queue(nodes)
				}
				before := queue()
				session := dead.Contact().Get().Session
				way.Sever()
				cfg := onzk.Config{Servers: addresses, Logger: s.log,
					Dial: s.zoo.Way(devzookeeper.Weather{}).Dial}
				if led, err := onzk.Depart(t.Context(), cfg, "demo", session); !led || err != nil {
					t.Errorf("the departure: %v, %v", led, err)
				}
				begin := time.Now()
				becomes(t, next, election.Leading)
				if took := time.Since(begin); took > time.Second {
					t.Errorf("the next one leads after %v", took)
				}
				if now, want := queue(), before[len(died):]; !slices.Equal(now, want) {
					t.Errorf("the queue is %v, not %v", now, want)
				}
				next.Resign()
				<-next.Done()
				way.Mend(true)
				dead.Close()
				for _, e := range died {
					<-e.Done()
				}
			})
		})
	}
}
