package onconsul_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// tardy is a way to Consul on which the first take is late, so that another one leads, and the
// polls break until that one is gone.
type tardy struct {
	to    http.RoundTripper
	leads chan struct{} // closed when the other one leads
	see   func()        // called when this one was refused and has seen that
	held  atomic.Bool
	over  atomic.Bool // the other one is gone
}

func (w *tardy) carry(r *http.Request) (*http.Response, error) {
	if transport.Poll(r) {
		resp, err := w.to.RoundTrip(r)
		if err == nil && w.held.Load() && !w.over.Load() {
			resp.Body.Close()
			return nil, syscall.ECONNRESET
		}
		return resp, err
	}
	switch text := transport.Txn(r); {
	case strings.Contains(text, `state/leader"`) && strings.Contains(text, `"lock"`) &&
		w.held.CompareAndSwap(false, true):
		<-w.leads
	case text != "" && w.held.Load() && !w.over.Load() && !strings.Contains(text, `"lock"`):
		defer w.see() // why it was refused
	}
	return w.to.RoundTrip(r)
}

// A take that was refused because another one led for a moment is tried again although no view says
// that anything has changed: that one came and went between two answers of the poll.
func TestATakeThatWasRefusedIsTriedAgainAlthoughNothingIsSeenToChange(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		seen := make(chan struct{})
		way := &tardy{to: s.consul.RoundTripper(), leads: make(chan struct{}),
			see: sync.OnceFunc(func() { close(seen) })}
		nominate := func(name string, next http.RoundTripper, lead func(context.Context,
			election.Status) error) (*election.Election, *onconsul.Conn) {
			conn := s.over(&wire{next: next, server: s})
			e := nominated(t, conn, election.Config{Election: "demo", Name: name, Logger: s.log,
				Lead: lead})
			return e, conn
		}
		a, one := nominate("a", transport.Func(way.carry), untilTold)
		time.Sleep(100 * time.Millisecond)
		b, two := nominate("b", s.consul.RoundTripper(),
			func(context.Context, election.Status) error {
				close(way.leads)
				<-seen
				return nil
			})
		<-b.Done()
		way.over.Store(true)
		if s := b.State().Get(); !s.Resigned {
			t.Fatalf("b came to %v", s)
		}
		time.Sleep(5 * time.Second)
		if s := a.State().Get(); s.Role != election.Leading {
			t.Errorf("5s after nobody leads any more a says: %v", s)
		}
		a.Resign()
		<-a.Done()
		one.Close()
		two.Close()
	})
}
