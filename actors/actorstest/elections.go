package actorstest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/coordd/coordd/internal/testkit"
)

// Elections is a store of elections for a test. It is safe for concurrent use.
type Elections struct {
	referee // a schedule has a leader do its duty again
	connect func() (connection, error)
}

// connection is one candidate's way to the store.
type connection struct {
	election.Connection
	close, cut, mend func()
}

// Elections are those of the embedded Consul.
func (c *Cluster) Elections(configure ...func(*onconsul.Config)) *Elections {
	return newElections(c.t, func() (connection, error) {
		w := newWire(c.consul.RoundTripper())
		cfg := onconsul.Config{Client: devconsul.ClientOver(w), Logger: c.log()}
		for _, f := range configure {
			f(&cfg)
		}
		conn, err := onconsul.Connect(cfg)
		return connection{conn, conn.Close, w.cut, w.mend}, err
	})
}

// ZooKeeper are elections on an embedded ZooKeeper, until the end of the test.
func ZooKeeper(t testing.TB, configure ...func(*onzk.Config)) *Elections {
	server := devzookeeper.New()
	t.Cleanup(server.Close)
	return newElections(t, func() (connection, error) {
		way := server.Way(devzookeeper.Weather{})
		cfg := onzk.Config{Servers: []string{"10.0.0.1:2181"}, Dial: way.Dial,
			Logger: slog.New(slog.DiscardHandler)}
		for _, f := range configure {
			f(&cfg)
		}
		conn, err := onzk.Connect(cfg)
		return connection{conn, conn.Close, way.Sever, func() { way.Mend(true) }}, err
	})
}

func newElections(t testing.TB, connect func() (connection, error)) *Elections {
	return &Elections{referee{t: t, again: true, judge: testkit.NewJudge()}, connect}
}

// Candidate takes part in an election, over a connection of its own.
type Candidate struct {
	*election.Election
	conn connection
	e    *Elections
	name string
	stop sync.Once
}

// Nominate has a candidate take part until the end of the test, or until it is stopped. Without a
// Lead the duty is to wait. The test fails when two duties are under way at once, or when a token
// falls.
func (e *Elections) Nominate(cfg election.Config) *Candidate {
	e.t.Helper()
	duty := cfg.Lead
	cfg.Lead = func(ctx context.Context, s election.Status) error {
		defer e.begin(s.Self.Name, cfg.Election, s.Token)()
		if duty != nil {
			return duty(ctx, s)
		}
		<-ctx.Done()
		return nil
	}
	c := &Candidate{e: e, name: cfg.Name}
	var err error
	if c.conn, err = e.connect(); err == nil {
		c.Election, err = election.New(c.conn, cfg)
	}
	if err == nil {
		_, err = c.Election.Nominate(context.WithoutCancel(e.t.Context()))
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(c.Stop)
	return c
}

// CutOff breaks its connection to the store until Mend: it stops its duty before its lease ends.
func (c *Candidate) CutOff() { c.conn.cut() }

// Mend ends a CutOff.
func (c *Candidate) Mend() { c.conn.mend() }

// Stop has it resign, and waits for that: a duty that does not return is named. The second call
// does nothing.
func (c *Candidate) Stop() {
	c.e.t.Helper()
	c.stop.Do(func() {
		c.Resign()
		select {
		case <-c.Done():
		case <-time.After(time.Minute):
			c.e.t.Errorf("%s has not left the election after a minute: it is %v; does its duty "+
				"return when its context ends?", c.name, c.State().Get())
		}
		c.conn.close()
	})
}
