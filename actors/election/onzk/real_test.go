//go:build coordd_elections

package onzk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realzookeeper"
	"github.com/go-zookeeper/zk"
)

// sessionTimeout is long enough for a machine that is busy with other tests, and short enough to wait for. Where a thousand candidates share
// the machine with the server it is longer.
const (
	sessionTimeout = 6 * time.Second
	crowdTimeout   = 30 * time.Second
)

// TestReal plays all scenarios on a real ZooKeeper: one server, and for each scenario nodes of its own.
func TestReal(t *testing.T) {
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	n := 0
	electiontest.Run(t, func(t *testing.T, play func(*testing.T, electiontest.Store)) {
		n++
		timeout := sessionTimeout
		if strings.Contains(t.Name(), "Many") {
			timeout = crowdTimeout
		}
		play(t, &store{t: t, server: server, timeout: timeout, root: fmt.Sprintf("/test-%d/elections", n)})
	})
}

type store struct {
	t       *testing.T
	server  *realzookeeper.Server
	timeout time.Duration
	root    string
}

func (s *store) TTL() time.Duration    { return s.timeout }
func (s *store) Expiry() time.Duration { return s.timeout + 2*time.Second }
func (s *store) Virtual() bool         { return false }
func (s *store) Stop()                 { _ = s.server.Kill() }

func (s *store) Start() {
	_ = s.server.Start()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.server.WaitReady(ctx); err != nil {
		s.t.Fatal(err)
	}
}

func (s *store) Connect() electiontest.Link {
	w := &wire{}
	c, err := onzk.Connect(s.config(w))
	if err != nil {
		s.t.Fatal(err)
	}
	return &link{Conn: c, t: s.t, wire: w, addr: s.server.Addr()}
}

func (s *store) config(w *wire) onzk.Config {
	return onzk.Config{
		Servers: []string{s.server.Addr()}, SessionTimeout: s.timeout, Root: s.root, Dial: w.Dial,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// DeleteAsStranger removes node after node, as ZooKeeper's own deleteall does, until all are gone.
func (s *store) DeleteAsStranger(name string) {
	c, err := onzk.Connect(s.config(&wire{}))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	path := s.root + "/" + name
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		children, _, err := c.ZK().Children(path)
		for _, child := range children {
			_ = c.ZK().Delete(path+"/"+child, -1)
		}
		if err == nil {
			err = c.ZK().Delete(path, -1)
		}
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			return
		}
	}
	s.t.Fatalf("%s could not be removed", path)
}

// link is a connection that a scenario can break.
type link struct {
	*onzk.Conn
	*wire
	t    *testing.T
	addr string
}

func (l *link) Expire() {
	session, password := l.Credentials()
	if err := endSession(l.addr, session, password); err != nil {
		l.t.Errorf("end the session: %v", err)
	}
}
