package onconsul_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
)

// The rights are back before a lease is over, and all is given up in order.
func TestADenialThatIsOverCostsNoSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var denied atomic.Bool
		c, plain := s.over(s.denies(&denied)), s.over(s.consul.RoundTripper())
		a, b := s.joins(c, "a", 0), s.joins(plain, "b", 0)
		leads := nominated(t, plain, election.Config{Election: "other", Name: "leads",
			Lead: untilTold, Logger: s.log})
		time.Sleep(time.Second)
		waits := nominated(t, c, election.Config{Election: "other", Name: "waits",
			Lead: untilTold, Logger: s.log})
		time.Sleep(time.Second)
		session := c.Contact().Get().Session
		denied.Store(true)
		must(t, b.HandOver(context.Background(), "b"))
		time.Sleep(3 * time.Second)
		denied.Store(false)
		a.Resign()
		<-a.Done()
		time.Sleep(time.Minute)
		if now := c.Contact().Get(); now.Session != session {
			t.Errorf("the session has ended: %v; who waits elsewhere: %v", now, waits.State().Get())
		}
		electiontest.Resign(b, leads, waits)
		c.Close()
		plain.Close()
	})
}

// One whose rights are taken away for less than a lease gives up in order as soon as they are back.
func TestADenialOfLessThanALeaseCostsNoSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var denied atomic.Bool
		c, plain := s.over(s.denies(&denied)), s.over(s.consul.RoundTripper())
		a, b := s.joins(c, "a", 0), s.joins(plain, "b", 0)
		session := c.Contact().Get().Session
		denied.Store(true)
		must(t, b.HandOver(context.Background(), "b"))
		time.Sleep(8 * time.Second) // of 10 s
		denied.Store(false)
		time.Sleep(3 * time.Second)
		if now := b.State().Get(); now.Role != election.Leading ||
			c.Contact().Get().Session != session {
			t.Errorf("b: %v; the session: %v, and was %v", now, c.Contact().Get(), session)
		}
		electiontest.Resign(a, b)
		c.Close()
		plain.Close()
	})
}

// A leader that was denied to give up lost the leadership otherwise, and leads again later, with
// all rights. What the connection leads elsewhere is given up then.
func TestAnOldDenialCostsNoLeader(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var denied atomic.Bool
		c, plain := s.over(s.denies(&denied)), s.over(s.consul.RoundTripper())
		a, b := s.joins(c, "a", 0), s.joins(plain, "b", 0)
		other := nominated(t, c, election.Config{Election: "other", Name: "x", Lead: untilTold,
			Logger: s.log})
		time.Sleep(time.Second)
		denied.Store(true)
		must(t, b.HandOver(context.Background(), "b"))
		time.Sleep(5 * time.Second)
		_, err := s.consul.Client().KV().Delete("election/"+contested+"/state/leader", nil)
		must(t, err)
		time.Sleep(time.Minute)
		denied.Store(false)
		b.Resign()
		<-b.Done()
		time.Sleep(time.Minute)
		other.Resign()
		<-other.Done()
		time.Sleep(time.Minute)
		if now := a.State().Get(); now.Role != election.Leading {
			t.Errorf("the leader with all rights: %v", now)
		}
		a.Resign()
		<-a.Done()
		c.Close()
		plain.Close()
	})
}

// The process of such a leader ends, in order or not.
func TestTheSessionOfALeaderThatMayNoLongerWriteEndsWithItsProcess(t *testing.T) {
	for name, ends := range map[string]func(t *testing.T, c *onconsul.Conn, s *embedded){
		"in order": func(_ *testing.T, c *onconsul.Conn, _ *embedded) { c.Close() },
		"killed": func(t *testing.T, c *onconsul.Conn, s *embedded) {
			var denied atomic.Bool
			denied.Store(true)
			led, err := onconsul.Depart(t.Context(), onconsul.Config{
				Client: devconsul.ClientOver(s.denies(&denied))}, contested,
				c.Contact().Get().Session)
			if led || !errors.Is(err, store.ErrDenied) {
				t.Errorf("the departure: led %v, %v", led, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var denied atomic.Bool
				c, err := onconsul.Connect(onconsul.Config{
					Client: devconsul.ClientOver(s.denies(&denied)), CheckTTL: onconsul.NoCheck,
					Logger: s.log})
				must(t, err)
				plain := s.over(s.consul.RoundTripper())
				a, b := s.joins(c, "a", 0), s.joins(plain, "b", 0)
				denied.Store(true)
				a.Resign()
				<-a.Done()
				begin := time.Now()
				ends(t, c, s)
				for b.State().Get().Role != election.Leading && time.Since(begin) < time.Hour {
					time.Sleep(100 * time.Millisecond)
				}
				// The lock-delay, and what Close waits for.
				if took := time.Since(begin); took > 13*time.Second {
					t.Errorf("b leads after %v", took)
				}
				b.Resign()
				<-b.Done()
				c.Close()
				plain.Close()
			})
		})
	}
}
