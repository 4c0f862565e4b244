package onconsul_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A leader's lease runs out while its session lives, and its token has lost the right to write
// meanwhile: it can neither lead again nor give its record up.
func TestALapsedLeaderThatMayNoLongerWriteIsSucceeded(t *testing.T) {
	for name, cfg := range map[string]struct {
		onconsul.Config
		away time.Duration
	}{
		"with a check":               {onconsul.Config{}, 11 * time.Second},
		"without one":                {onconsul.Config{CheckTTL: onconsul.NoCheck}, 11 * time.Second},
		"whose lease is a short one": {onconsul.Config{Lease: 3 * time.Second}, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var r rights
				cfg.Client, cfg.Logger = devconsul.ClientOver(s.grants(&r)), s.log
				one, err := onconsul.Connect(cfg.Config)
				must(t, err)
				two := s.over(s.consul.RoundTripper())
				a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
				session := one.Contact().Get().Session
				r.denied.Store(true)
				r.cut.Store(true)
				time.Sleep(cfg.away)
				r.cut.Store(false)
				if time.Sleep(4 * time.Second); cfg.away > 4*time.Second &&
					one.Contact().Get().Session != session {
					t.Fatal("the session has ended in the outage: this tests nothing")
				}
				// The lease, two tries and the lock-delay.
				if took := untilLeads(b); took > 25*time.Second {
					t.Errorf("after %v a is %v, and b %v", took, a.State().Get(), b.State().Get())
				}
				electiontest.Resign(a, b)
				one.Close()
				two.Close()
			})
		})
	}
}

// What another election of the connection has lost keeps no session.
func TestALeadershipThatIsLostKeepsNoSessionThatIsHeldInVain(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var denied atomic.Bool
		one, two := s.over(s.denies(&denied)), s.over(s.consul.RoundTripper())
		a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
		other := nominated(t, one, election.Config{Election: "other", Name: "a", Lead: untilTold,
			Logger: s.log})
		time.Sleep(time.Second)
		next := nominated(t, two, election.Config{Election: "other", Name: "b", Priority: 1,
			Lead: untilTold, Logger: s.log})
		time.Sleep(time.Second)
		_, err := s.consul.Client().KV().Delete("election/other/state/leader", nil)
		must(t, err)
		untilLeads(next)
		denied.Store(true)
		must(t, b.HandOver(context.Background(), "b"))
		if took := untilLeads(b); took > 25*time.Second {
			t.Errorf("b leads after %v", took)
		}
		electiontest.Resign(a, b, other, next)
		one.Close()
		two.Close()
	})
}

// The denial was over before the lease was, and Consul was away then: nobody could say so. Nor could
// anybody where there is another one after a long outage.
func TestADenialThatWasOverDuringAnOutageCostsNoSession(t *testing.T) {
	for name, c := range map[string]struct{ away, again time.Duration }{
		"which was the only one":      {away: 11 * time.Second},
		"which another one came upon": {away: 70 * time.Second, again: 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var r rights
				cfg := onconsul.Config{Client: devconsul.ClientOver(s.grants(&r)), Logger: s.log}
				if c.again > 0 {
					cfg.TTL, cfg.Lease = time.Minute, 10*time.Second
				}
				one, err := onconsul.Connect(cfg)
				must(t, err)
				two := s.over(s.consul.RoundTripper())
				a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
				session := one.Contact().Get().Session
				r.denied.Store(true)
				must(t, b.HandOver(context.Background(), "b"))
				time.Sleep(time.Second / 2)
				r.denied.Store(c.again > 0)
				r.cut.Store(true)
				time.Sleep(c.away)
				r.cut.Store(false)
				time.Sleep(c.again)
				r.denied.Store(false)
				if took := untilLeads(b); took > 10*time.Second ||
					one.Contact().Get().Session != session {
					t.Errorf("b leads after %v, the session is %v", took, one.Contact().Get())
				}
				electiontest.Resign(a, b)
				one.Close()
				two.Close()
			})
		})
	}
}

// A session is given up just as its connection takes another leadership, each answer takes its
// time, and the lock-delay is shorter than the lease: whoever leads next would begin too early.
func TestASessionThatIsHeldInVainIsNotEndedUnderANewLeader(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond,
		1900 * time.Millisecond} {
		bubble(t, func(t *testing.T, s *embedded) {
			var denied, late atomic.Bool
			ends := make(chan struct{}, 99)
			denies := s.denies(&denied)
			one := s.shortDelay(transport.Func(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "/session/destroy/") && denied.Load() {
					ends <- struct{}{}
					time.Sleep(time.Second) // it is on its way
					late.Store(true)
				}
				resp, err := denies.RoundTrip(r)
				if late.Load() {
					time.Sleep(1900 * time.Millisecond) // and so is each answer
				}
				return resp, err
			}))
			two := s.shortDelay(s.consul.RoundTripper())
			var working atomic.Int32
			in := func(c *onconsul.Conn, name string) *election.Election {
				e := nominated(t, c, election.Config{Election: "other", Name: name, Logger: s.log,
					Lead: func(ctx context.Context, _ election.Status) error {
						if n := working.Add(1); n > 1 {
							t.Errorf("%v later: %d lead", after, n)
						}
						<-ctx.Done()
						working.Add(-1)
						return nil
					}})
				time.Sleep(time.Second)
				return e
			}
			x, xb := s.joins(one, "x", 0), s.joins(two, "xb", 0)
			yb, y, yc := in(two, "yb"), in(one, "y"), in(two, "yc")
			denied.Store(true)
			must(t, xb.HandOver(context.Background(), "xb"))
			<-ends
			time.Sleep(after)
			yb.Resign()
			<-yb.Done()
			time.Sleep(30 * time.Second)
			if working.Load() != 1 || xb.State().Get().Role != election.Leading {
				t.Errorf("%v later: %d lead the other one; xb: %v", after, working.Load(),
					xb.State().Get())
			}
			electiontest.Resign(x, xb, y, yc)
			one.Close()
			two.Close()
		})
	}
}

// shortDelay connects to this Consul with a lock-delay below the lease.
func (s *embedded) shortDelay(next http.RoundTripper) *onconsul.Conn {
	s.t.Helper()
	conn, err := onconsul.Connect(onconsul.Config{Client: devconsul.ClientOver(next),
		LockDelay: time.Second, Logger: s.log})
	must(s.t, err)
	return conn
}

// A request that ends the session is lost: it is sent again, and a connection that is closed by
// then sends it as well.
func TestASessionThatIsGivenUpEndsSoonWhateverBecomesOfTheRequest(t *testing.T) {
	for name, closes := range map[string]bool{"and goes on": false, "and is closed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var denied, heard atomic.Bool
				lost := make(chan struct{})
				denies := s.denies(&denied)
				one := s.over(transport.Func(func(r *http.Request) (*http.Response, error) {
					if strings.Contains(r.URL.Path, "/session/destroy/") &&
						heard.CompareAndSwap(false, true) {
						close(lost)
						return nil, io.ErrUnexpectedEOF
					}
					return denies.RoundTrip(r)
				}))
				two := s.over(s.consul.RoundTripper())
				a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
				denied.Store(true)
				a.Resign()
				<-lost
				if closes {
					one.Close()
				}
				// The next try and the lock-delay.
				if took := untilLeads(b); took > 15*time.Second {
					t.Errorf("b leads after %v", took)
				}
				electiontest.Resign(a, b)
				one.Close()
				two.Close()
			})
		})
	}
}

// The session is given up while a renewal is under way, and a take of its connection: the candidate
// hears that it has won while the session still counts.
func TestATakeThatIsHeardOfWhenTheSessionWasGivenUpBeginsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var denied, full atomic.Bool
		renews, decides, taken := make(chan struct{}), make(chan struct{}), make(chan struct{})
		renewal, decision, take := sync.OnceFunc(func() { close(renews) }),
			sync.OnceFunc(func() { close(decides) }), sync.OnceFunc(func() { close(taken) })
		consul, deny := s.consul.RoundTripper(), s.denies(&denied)
		one := s.shortDelay(transport.Func(func(r *http.Request) (*http.Response, error) {
			switch {
			case !full.Load():
			case strings.Contains(r.URL.Path, "/session/renew/"):
				renewal()
				select {
				case <-taken:
					time.Sleep(time.Second)
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			case transport.TxnWith(contested + `/state/leader"`)(r):
				<-renews
				decision()
				<-taken // this answer gives the session up
			case transport.TxnWith(`other/state/leader"`, `"lock"`)(r):
				resp, err := consul.RoundTrip(r)
				take()
				time.Sleep(100 * time.Millisecond)
				return resp, err
			}
			return deny.RoundTrip(r)
		}))
		two := s.shortDelay(consul)
		began := false
		x, xb := s.joins(one, "x", 0), s.joins(two, "xb", 0)
		yb := nominated(t, two, election.Config{Election: "other", Name: "yb", Lead: untilTold,
			Logger: s.log})
		time.Sleep(time.Second)
		y := nominated(t, one, election.Config{Election: "other", Name: "y", Logger: s.log,
			Lead: func(context.Context, election.Status) error {
				began = true
				return nil
			}})
		time.Sleep(time.Second)
		denied.Store(true)
		must(t, xb.HandOver(context.Background(), "xb"))
		time.Sleep(10 * time.Second)
		full.Store(true)
		<-decides
		yb.Resign()
		<-y.Done()
		if began {
			t.Error("it leads in a session that was given up")
		}
		untilLeads(xb)
		electiontest.Resign(x, xb, yb)
		one.Close()
		two.Close()
	})
}
