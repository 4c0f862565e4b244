package onconsul_test

import (
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// A Consul server that has just begun to lead renews sessions that have ended, until it has
// replayed its log. A leader whose session somebody ends just before that leads no longer than the
// lease that it had.
func TestARenewalAnsweredFromThePastIsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		at := make(chan string, 1) // who is at it
		nominate := func(name string) (*election.Election, *link) {
			l := s.Connect().(*link)
			e := nominated(t, l, election.Config{Election: "demo", Name: name, Logger: s.log,
				Lead: func(ctx context.Context, _ election.Status) error {
					select {
					case at <- name:
					default:
						t.Errorf("%s begins while another is at it", name)
					}
					<-ctx.Done()
					<-at
					return nil
				}})
			time.Sleep(time.Second)
			return e, l
		}
		a, link := nominate("a")
		b, other := nominate("b")
		past := s.consul.Snapshot()
		link.End()
		s.consul.ElectionStart()
		s.consul.ElectionEndBehind(past)
		restarted := time.Now()
		time.Sleep(15 * time.Second)
		if c := link.Contact().Get(); c.Lease.Start.After(restarted) {
			t.Errorf("the lease of a session that has ended begins %v after Consul's restart",
				c.Lease.Start.Sub(restarted))
		}
		if s := a.State().Get(); s.Role == election.Leading {
			t.Errorf("15s after its session was ended a says: %v", s)
		}
		link.Cut()
		s.consul.ElectionEnd()
		// Most often b sees at once that the leadership is free, and the lock-delay takes 10 s. It may
		// also have just begun its longest pause between two tries, of 5 s.
		time.Sleep(16 * time.Second)
		if s := b.State().Get(); s.Role != election.Leading {
			t.Errorf("16s after Consul is back b says: %v", s)
		}
		link.Mend()
		a.Resign()
		b.Resign()
		<-a.Done()
		<-b.Done()
		link.Close()
		other.Close()
	})
}
