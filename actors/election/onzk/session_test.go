//go:build coordd_elections

package onzk_test

import (
	"bytes"
	"context"
	"errors"
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
		t.Fatalf("it is never %v, but %v", role, e.State().Get())
	}
	return s
}

func nominate(t *testing.T, c election.Connection, name string) (*election.Election,
	<-chan election.Status) {
	t.Helper()
	e, err := election.New(c, election.Config{Election: "demo", Name: name,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	must(t, err)
	statuses, err := e.Nominate(t.Context())
	must(t, err)
	// before the connection is closed: what nobody says stopped lasts for a lease
	t.Cleanup(e.Resign)
	return e, statuses
}

func rootOf(t *testing.T) string { return "/" + strings.ReplaceAll(t.Name(), "/", "-") }

// candidates are the nodes of the candidates, the next one to lead first.
func candidates(t *testing.T, c *onzk.Conn) []string {
	t.Helper()
	children, _, err := c.ZK().Children(rootOf(t) + "/demo")
	must(t, err)
	return onzk.Queue(children)
}

func TestOnASharedServer(t *testing.T) {
	t.Parallel()
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	connectFor := func(t *testing.T, w *wire, timeout time.Duration) *onzk.Conn {
		s := &store{t: t, server: server, timeout: timeout, root: rootOf(t)}
		return s.connect(t, w)
	}
	connect := func(t *testing.T, w *wire) *onzk.Conn { return connectFor(t, w, crowdTimeout) }

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
		now, err := c.Contact().Wait(ctx, func(c election.Contact) bool {
			return c.Lease.Start.After(mended)
		})
		if s := e.State().Get(); err != nil || s.Role != election.Leading || s.Token != token ||
			now.Why != "" {
			t.Fatalf("after a disconnect: %v, %v, %+v", s, err, now)
		}
		e.Resign()
		for s := range statuses {
			if s.What == election.RoleChanged && s.Role != election.Leading &&
				s.Role != election.Draining {
				t.Errorf("it was told %v", s)
			}
		}
	})

	// See TestAConnectionWithoutWatchesComesBack.
	t.Run("AConnectionWithoutWatchesComesBack", func(t *testing.T) {
		w := &wire{}
		c, other := connectFor(t, w, busyTimeout), connect(t, &wire{})
		leader, _ := nominate(t, other, "leader")
		wait(t, leader, election.Leading)
		first, _ := nominate(t, c, "first")
		wait(t, first, election.Following)
		first.Resign()
		<-first.Done()
		leader.Resign()
		<-leader.Done()
		must(t, leader.Delete(t.Context()))
		w.Cut()
		w.Mend() // breaks the connection
		second, _ := nominate(t, c, "second")
		wait(t, second, election.Leading)
	})

	t.Run("ACreateWhoseReplyWasLostIsFoundAgain", func(t *testing.T) {
		// The reply to the create, and that to the reading of what it made.
		for _, opcode := range []byte{14, 3} {
			w := &wire{}
			c := connect(t, w)
			w.Lose(func(request []byte) bool {
				return bytes.Contains(request, []byte("/demo/_c_")) && request[11] == opcode
			})
			e, _ := nominate(t, c, "n1")
			wait(t, e, election.Leading)
			if !w.Lost() {
				t.Fatalf("no reply to operation %d was lost: this shows nothing", opcode)
			}
			if nodes := candidates(t, c); len(nodes) != 1 {
				t.Errorf("there are the nodes %v, want one", nodes)
			}
			e.Resign()
			<-e.Done()
			if nodes := candidates(t, c); len(nodes) != 0 {
				t.Errorf("after it has resigned there are the nodes %v", nodes)
			}
		}
	})

	t.Run("ATakeWhoseReplyWasLostIsLedBy", func(t *testing.T) {
		w := &wire{}
		c := connect(t, w)
		w.Lose(func(request []byte) bool {
			return bytes.Contains(request, []byte("/demo/leader")) &&
				bytes.Contains(request, []byte("lock_delay"))
		})
		e, _ := nominate(t, c, "n1")
		s := wait(t, e, election.Leading)
		_, stat, err := c.ZK().Get(rootOf(t) + "/demo/leader")
		if err != nil || !w.Lost() || uint64(stat.Czxid) != s.Token {
			t.Errorf("a reply was lost: %v; it leads with token %d; the node is of %+v (%v)",
				w.Lost(), s.Token, stat, err)
		}
	})

	t.Run("ACallersOwnConnection", func(t *testing.T) {
		cfg := onzk.Config{Root: "/own", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
		d := new(onzk.Dialer)
		zc, events, err := zk.Connect([]string{server.Addr(), server.Addr()}, crowdTimeout,
			zk.WithDialer(d.Dial), zk.WithLogInfo(false))
		must(t, err)
		c, err := onzk.New(zc, events, d, cfg)
		must(t, err)
		defer c.Close()
		e, statuses := nominate(t, c, "n1")
		wait(t, e, election.Leading)
		if _, err := onzk.New(zc, nil, new(onzk.Dialer), cfg); !errors.Is(err,
			election.ErrInvalid) {
			t.Errorf("a connection that was not made with the dialer: %v", err)
		}
		zc.Close()
		for range statuses {
		}
		if err := e.State().Get().Err; !errors.Is(err, election.ErrClosed) {
			t.Errorf("the caller has closed the connection, and it was told %v", err)
		}
	})
}

// A request waits in the client for a connection. By the time that it has one, the election that it
// was meant for may be over, and another of that name under way.
func TestAnOrderThatArrivesLateMissesTheNextElection(t *testing.T) {
	t.Parallel()
	s := begin(t, crowdTimeout)
	w := &wire{}
	slow, quick := s.connect(t, w), s.connect(t, &wire{})
	order := func(c *onzk.Conn) *election.Election {
		e, err := election.New(c, election.Config{Election: "demo"})
		must(t, err)
		return e
	}
	first, _ := nominate(t, quick, "n1")
	wait(t, first, election.Leading)
	// The order is read up to its last request, which is held back.
	held := w.Hold(func(request []byte) bool {
		return bytes.Contains(request, []byte(`"ending"`))
	})
	late := make(chan error, 1)
	go func() { late <- order(slow).End(t.Context()) }()
	soon(t, held, "the order to end was not sent")
	first.Resign()
	<-first.Done()
	must(t, order(quick).Delete(t.Context()))
	next, _ := nominate(t, quick, "n2")
	wait(t, next, election.Leading)
	w.Free()
	if err := <-late; !errors.Is(err, election.ErrDeleted) {
		t.Errorf("the late order says %v", err)
	}
	time.Sleep(time.Second)
	if s := next.State().Get(); s.Role != election.Leading {
		t.Errorf("an order to the election before has ended this one: %v", s)
	}
	next.Resign()
	<-next.Done()
}
