//go:build coordd_elections

package onzk_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realzookeeper"
)

// Each server of an ensemble in turn is killed and comes back: its own elections included, that
// costs nobody the leadership.
func TestALeaderRidesThroughTheLossOfEachServer(t *testing.T) {
	t.Parallel()
	e := realzookeeper.Start(t, realzookeeper.Options{Servers: 3})
	connect := func() *onzk.Conn {
		// longer than any election takes
		c, err := onzk.Connect(onzk.Config{Servers: e.Addrs(), SessionTimeout: time.Minute,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		must(t, err)
		t.Cleanup(c.Close)
		return c
	}
	conn := connect()
	leader := nominate(t, conn, "n1")
	token := becomes(t, leader, election.Leading).Token
	next := nominate(t, connect(), "n2")
	becomes(t, next, election.Following)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	before := conn.Contact().Get()
	for _, s := range e.Servers {
		must(t, s.Kill())
		must(t, s.Start())
		must(t, e.WaitReady(ctx))
	}
	if s, now := leader.State().Get(), conn.Contact().Get(); s.Role != election.Leading ||
		s.Token != token || now.Session != before.Session {
		t.Fatalf("the leader was told %v; its contact was %+v, is %+v", s, before, now)
	}
	leader.Resign()
	if s := becomes(t, next, election.Leading); s.Token <= token {
		t.Errorf("the next one has token %d, not above %d", s.Token, token)
	}
}
