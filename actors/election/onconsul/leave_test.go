package onconsul_test

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// overtaken is a way to Consul on which the first take breaks off. It arrives after all: when its
// candidate has looked for what it has to remove, or when it has left.
type overtaken struct {
	to     http.RoundTripper
	while  bool   // it leaves
	broken func() // called when it does

	mu      sync.Mutex
	kept    *http.Request
	arrived bool
}

func (w *overtaken) carry(r *http.Request) (*http.Response, error) {
	// Not held while a request is under way: who waits for a mutex stops virtual time.
	w.mu.Lock()
	first := w.kept == nil && takes(r)
	late := w.while && w.kept != nil && !w.arrived && transport.TxnWith(`"get-or-empty"`)(r)
	if first {
		w.kept = transport.Copy(r)
	}
	w.arrived = w.arrived || late
	w.mu.Unlock()
	if first {
		w.broken()
		return nil, syscall.ECONNRESET
	}
	resp, err := w.to.RoundTrip(r)
	if late && transport.Again(w.to, w.kept) != http.StatusOK {
		w.mu.Lock()
		w.arrived = false
		w.mu.Unlock()
	}
	return resp, err
}

// A candidate has left, and its connection lives on. If its last take won while it left, or later,
// its session would hold a leadership that nobody leads by.
func TestATakeThatIsLateWhenItsCandidateLeavesLeadsNobody(t *testing.T) {
	for _, while := range []bool{true, false} {
		if err := lateTake(t, while); err != nil {
			t.Error(err)
		}
	}
}

func lateTake(t *testing.T, while bool) (err error) {
	bubble(t, func(t *testing.T, s *embedded) {
		way := &overtaken{to: s.consul.RoundTripper(), while: while}
		one, two := s.over(transport.Func(way.carry)), s.over(s.consul.RoundTripper())
		defer one.Close()
		defer two.Close()
		var a *election.Election
		ready := make(chan struct{})
		way.broken = func() { <-ready; a.Resign() }
		a = nominated(t, one, election.Config{Election: contested, Name: "a", Lead: untilTold,
			Logger: s.log})
		close(ready)
		<-a.Done()
		if !while {
			transport.Again(way.to, way.kept)
		} else if !way.arrived {
			t.Fatal("the late take was not carried out: this shows nothing")
		}
		b := nominated(t, two, election.Config{Election: contested, Name: "b", Lead: untilTold,
			Logger: s.log})
		time.Sleep(time.Minute)
		if s := b.State().Get(); s.Role != election.Leading {
			err = fmt.Errorf("a has left, and a minute later b is told %v, of the leader %v", s,
				s.Leader)
		}
		b.Resign()
		<-b.Done()
	})
	return err
}
