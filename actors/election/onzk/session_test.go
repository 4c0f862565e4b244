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

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realzookeeper"
	"github.com/go-zookeeper/zk"
)

// wait returns the first status of that role.
func wait(t *testing.T, e *election.Election, role election.Role) election.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := e.State().Wait(ctx, func(s election.Status) bool { return s.Role == role })
	if err != nil {
		t.Fatalf("it is never %v, but %v", role, e.Status())
	}
	return s
}

func nominate(t *testing.T, c election.Connection, name string) (*election.Election, <-chan election.Status) {
	t.Helper()
	e, err := election.New(c, election.Config{Election: "demo", Name: name, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	statuses, err := e.Nominate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e, statuses
}

func TestOnASharedServer(t *testing.T) {
	t.Parallel()
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	connect := func(t *testing.T, w *wire) *onzk.Conn {
		s := &store{t: t, server: server, timeout: crowdTimeout, root: "/" + strings.ReplaceAll(t.Name(), "/", "-")}
		c, err := onzk.Connect(s.config(w))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}

	t.Run("ADisconnectIsNoLoss", func(t *testing.T) {
		w := &wire{}
		c := connect(t, w)
		e, statuses := nominate(t, c, "n1")
		token := wait(t, e, election.Leading).Token
		w.Cut()
		time.Sleep(100 * time.Millisecond)
		w.Mend() // breaks the connection
		mended := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		now, err := c.Contact().Wait(ctx, func(c election.Contact) bool { return c.Lease.Start.After(mended) })
		if s := e.Status(); err != nil || s.Role != election.Leading || s.Token != token || now.Why != "" {
			t.Fatalf("after a disconnect: %v, %v, %+v", s, err, now)
		}
		e.Resign()
		for s := range statuses {
			if s.What == election.RoleChanged && s.Role != election.Leading && s.Role != election.Draining {
				t.Errorf("it was told %v", s)
			}
		}
	})

	t.Run("ACandidatesNodeIsWatchedByItsSuccessorOnly", func(t *testing.T) {
		const n = 12
		var last *election.Election
		for i := range n {
			c := connect(t, &wire{})
			last, _ = nominate(t, c, fmt.Sprintf("n%d", i))
			if i == 0 {
				wait(t, last, election.Leading)
			} else {
				wait(t, last, election.Following)
			}
		}
		// The answer names each watched path, and below it, indented, the sessions that watch it.
		var worst int
		var answer string
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			text, err := server.Ask(t.Context(), "wchp")
			if err != nil {
				t.Fatal(err)
			}
			watchers, path := map[string]int{}, ""
			for line := range strings.Lines(text) {
				switch {
				case strings.HasPrefix(line, "/"):
					path = line
				case strings.Contains(path, "/demo/_c_") && strings.TrimSpace(line) != "":
					watchers[path]++
				}
			}
			two := 0
			worst, answer = 0, text
			for _, count := range watchers {
				worst = max(worst, count)
				if count == 2 {
					two++
				}
			}
			if worst == 2 && two == n-1 {
				return // itself and its successor; the last one has none
			}
		}
		t.Errorf("a candidate's node has up to %d watchers, want its owner and its successor:\n%s", worst, answer)
	})

	t.Run("ACallersOwnConnection", func(t *testing.T) {
		cfg := onzk.Config{Root: "/own", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
		d := new(onzk.Dialer)
		zc, events, err := zk.Connect([]string{server.Addr(), server.Addr()}, crowdTimeout, zk.WithDialer(d.Dial), zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		c, err := onzk.New(zc, events, d, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		e, statuses := nominate(t, c, "n1")
		wait(t, e, election.Leading)
		if _, err := onzk.New(zc, nil, new(onzk.Dialer), cfg); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("a connection that was not made with the dialer: %v", err)
		}
		zc.Close()
		for range statuses {
		}
		if err := e.Status().Err; !errors.Is(err, election.ErrClosed) {
			t.Errorf("the caller has closed the connection, and it was told %v", err)
		}
	})
}
