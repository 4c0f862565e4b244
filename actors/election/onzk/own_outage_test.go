package onzk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/go-zookeeper/zk"
)

// The elections of a caller's own connection are closed in an outage of the whole ZooKeeper, which
// lasts longer than sessions do. Sessions outlive that. What this one holds is removed then, though
// its caller goes on with the connection, also where he reads the client's events himself.
func TestWhatACallersOwnConnectionHoldsGoesWhenZooKeeperIsBack(t *testing.T) {
	for name, reads := range map[string]bool{"it reads the events": false,
		"its caller does": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				client, events, d := s.callersClient()
				defer ends(client)
				if reads {
					events = nil
				}
				own, err := onzk.New(client, events, d, onzk.Config{Logger: s.log})
				must(t, err)
				a := s.nominate(own, "a")
				becomes(t, a, election.Leading)
				two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer two.Close()
				b := s.nominate(two, "b")
				becomes(t, b, election.Following)
				s.zoo.Stop()
				own.Close()
				time.Sleep(5 * onzk.DefaultSessionTimeout)
				s.zoo.Start()
				leadsSoon(t, b)
				if session, _ := own.Credentials(); !s.zoo.Known(session) {
					t.Error("the session of the caller's connection has not outlived the outage")
				}
				electiontest.Resign(b)
			})
		})
	}
}

// A connection of the caller's has to be made with the dialer, and its end ends the candidacy.
func TestACallersOwnConnectionThatIsClosedEndsItsCandidates(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		client, events, d := s.callersClient()
		own, err := onzk.New(client, events, d, onzk.Config{Logger: s.log})
		must(t, err)
		defer own.Close()
		a := s.nominate(own, "a")
		becomes(t, a, election.Leading)
		if _, err := onzk.New(client, nil, new(onzk.Dialer), onzk.Config{}); !errors.Is(err,
			election.ErrInvalid) {
			t.Errorf("a connection that was not made with the dialer: %v", err)
		}
		ends(client)
		if err := becomes(t, a, election.Out).Err; !errors.Is(err, election.ErrClosed) {
			t.Errorf("the caller has closed the connection, and it was told %v", err)
		}
	})
}

// A candidate that did not lead leaves as well: none behind it would ever.
func TestACandidateOfACallersOwnConnectionLeavesWhenZooKeeperIsBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		client, _, d := s.callersClient()
		defer ends(client)
		own, err := onzk.New(client, nil, d, onzk.Config{Logger: s.log})
		must(t, err)
		two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer two.Close()
		a := s.nominate(two, "a")
		becomes(t, a, election.Leading)
		becomes(t, s.nominate(own, "b"), election.Following)
		c := s.nominate(two, "c")
		becomes(t, c, election.Following)
		s.zoo.Stop()
		own.Close()
		time.Sleep(5 * onzk.DefaultSessionTimeout)
		s.zoo.Start()
		time.Sleep(onzk.DefaultSessionTimeout)
		left, err := c.Candidates(t.Context())
		must(t, err)
		for _, one := range left {
			if one.Name == "b" {
				t.Errorf("with ZooKeeper back, the candidates are %+v", left)
			}
		}
		electiontest.Resign(a, c)
	})
}

// leadsSoon waits until a candidate leads, just after ZooKeeper is back.
func leadsSoon(t *testing.T, e *election.Election) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), onzk.DefaultSessionTimeout)
	defer cancel()
	if _, err := e.State().Wait(ctx, func(s election.Status) bool {
		return s.Role == election.Leading
	}); err != nil {
		t.Errorf("with ZooKeeper back, the next one is %v", e.State().Get())
	}
}

// callersClient is a client of the caller's, which goes on when the elections over it are closed.
func (s *embedded) callersClient() (*zk.Conn, <-chan zk.Event, *onzk.Dialer) {
	s.t.Helper()
	d := &onzk.Dialer{Base: s.zoo.Way(devzookeeper.Weather{}).Dial}
	client, events, err := zk.Connect(addresses, onzk.DefaultSessionTimeout,
		zk.WithDialer(d.Dial), zk.WithLogger(silent{}))
	must(s.t, err)
	return client, events, d
}

// ends closes a client and waits until it has noticed that.
func ends(client *zk.Conn) {
	client.Close()
	time.Sleep(3 * onzk.DefaultSessionTimeout)
}

// silent is no log of the client.
type silent struct{}

func (silent) Printf(string, ...any) {}
