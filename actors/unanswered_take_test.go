package actors_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A member may be told to stop while that by which it takes something is on its way, or carried out
// and not answered. It hands over then what it has taken as if it had known.

// telling is a way that tells when a request has been sent that aimed picks.
func telling(to http.RoundTripper, aimed func(*http.Request) bool) (http.RoundTripper,
	<-chan struct{}) {
	sent := make(chan struct{}, 1)
	return transport.Func(func(r *http.Request) (*http.Response, error) {
		if aimed(r) {
			select {
			case sent <- struct{}{}:
			default:
			}
		}
		return to.RoundTrip(r)
	}), sent
}

// unanswered is what a member n9 takes with the requests that aimed picks.
type unanswered struct {
	aimed   func(*http.Request) bool
	options []option
	// stops returns when n9 is to stop; the request has been sent.
	stops func(c *cluster)
	// over tells whether what it took is another's, which is to be so after that many answers.
	over    func(c *cluster) bool
	answers int
}

// play plays each way in which the answer may not be there yet.
func (u unanswered) play(t *testing.T, begin func(c *cluster)) {
	type way struct {
		name   string
		answer time.Duration // that each request takes
		to     func(c *cluster, w way) http.RoundTripper
		most   time.Duration // more than what answers take
	}
	slow := func(late bool) func(c *cluster, w way) http.RoundTripper {
		return func(c *cluster, w way) http.RoundTripper {
			return finishes(c.consul.RoundTripper(), w.answer, late)
		}
	}
	lost := func(by func(http.RoundTripper) transport.Func) func(*cluster, way) http.RoundTripper {
		return func(c *cluster, w way) http.RoundTripper {
			to := c.consul.RoundTripper()
			return transport.When(to, u.aimed, by(to))
		}
	}
	for _, w := range []way{
		{"the answer is lost", 0, lost(transport.Mute), 3 * time.Second},
		{"the connection is lost", 0, lost(transport.Lose), 0},
		{"60ms, carried out at once", 60 * time.Millisecond, slow(false), 0},
		{"600ms, carried out at once", 600 * time.Millisecond, slow(false), 0},
		{"1.9s, carried out at once", 1900 * time.Millisecond, slow(false), 0},
		{"60ms, carried out late", 60 * time.Millisecond, slow(true), 0},
		{"1.9s, carried out late", 1900 * time.Millisecond, slow(true), 0},
	} {
		t.Run(w.name, func(t *testing.T) {
			run(t, func(c *cluster) {
				begin(c)
				way, sent := telling(w.to(c, w), u.aimed)
				c.way = way
				m := c.start("n9", u.options...)
				c.way = nil
				<-sent
				u.stops(c)
				delete(c.members, m.id)
				m.cancel()
				most := m.c.Settings().Bounds().HandOver.Total() + w.most +
					time.Duration(u.answers)*w.answer
				if took := c.await("handed over", 2*time.Minute, func() bool {
					return u.over(c)
				}); took > most {
					t.Errorf("handed over after %v, want %v at the most", took, most)
				}
				if <-m.done; m.err != nil {
					t.Errorf("Run returned %v", m.err)
				}
				time.Sleep(w.answer) // what is on its way arrives
			})
		})
	}
}

// takesLeadership picks the takes of the leadership, and registersN9 the registrations of n9.
var (
	takesLeadership = transport.TxnWith(`"Verb":"lock"`, `/leader"`)
	registersN9     = transport.TxnWith(`"Verb":"lock"`, `/members/n9"`)
)

func TestAMemberThatStopsBeforeItsTakeIsAnsweredResigns(t *testing.T) {
	for name, o := range map[string]option{
		"it releases its items": func(cfg *actors.Config) { cfg.TTL = time.Minute },
		"it keeps its items": func(cfg *actors.Config) {
			cfg.TTL, cfg.KeepItems = time.Minute, time.Minute
		},
	} {
		t.Run(name, func(t *testing.T) {
			unanswered{
				aimed: takesLeadership, options: []option{o}, answers: 16,
				stops: func(*cluster) { time.Sleep(20 * time.Millisecond) },
				over: func(c *cluster) bool {
					if len(c.members) == 0 {
						c.start("n1")
						c.start("n2")
					}
					return c.leader() != ""
				},
			}.play(t, func(*cluster) {})
		})
	}
}

// What the leader has given it meanwhile is free at once.
func TestAMemberThatStopsBeforeItsRegistrationIsAnsweredSaysGoodbye(t *testing.T) {
	var all []string
	unanswered{
		aimed:   registersN9,
		options: []option{func(cfg *actors.Config) { cfg.TTL = time.Minute }},
		answers: 6,
		stops: func(c *cluster) {
			all = c.items(38)
			c.addWork(all[30:]...)
			testkit.Virtual(time.Second, 10*time.Millisecond, func() bool {
				return slices.ContainsFunc(all, func(id string) bool { return c.heldBy("n9", id) })
			})
		},
		over: func(c *cluster) bool { return c.runs(all)() },
	}.play(t, func(c *cluster) { three(c, 30) })
}

// One of the same id may be inside its lease: what it works on is free when that is over.
func TestARegistrationThatWasNotAnsweredPassesTheWaitForItsPredecessorOn(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		old := c.members[c.follower()]
		defer func() {
			old.cancel()
			old.net.Thaw()
			<-old.done
		}()
		time.Sleep(10 * time.Second)
		all, to := c.items(9), c.consul.RoundTripper()
		old.net.Freeze()
		c.must(c.store.DestroySession(c.t.Context(), old.c.Session().Get().ID))
		time.Sleep(10 * time.Millisecond) // a lock-delay
		aimed := transport.TxnWith(`"Verb":"lock"`, `/members/`+old.id+`"`)
		way, sent := telling(transport.When(to, aimed, transport.Mute(to)), aimed)
		c.way = way
		c.start(old.id)
		<-sent
		began := time.Now()
		c.stop(old.id)
		lease := old.c.Settings().Lease
		c.await("the old one has stopped", lease, func() bool { return !c.runs(all)() })
		c.await("all run", lease, c.runs(all))
		most := lease + 4*time.Second + old.c.Settings().Bounds().HandOver.Total()
		if took := time.Since(began); took < lease || took > most {
			t.Errorf("all run after %v, want %v to %v", took, lease, most)
		}
	})
}

// Who takes over next waits for what is left of the lease of whoever led before it.
func TestATakeThatWasNotAnsweredPassesTheWaitForTheLeaderBeforeOn(t *testing.T) {
	run(t, func(c *cluster) {
		ctx, k := c.t.Context(), c.store.Keys()
		old, _, err := c.store.CreateSession(ctx, store.SessionOptions{TTL: 30 * time.Second})
		c.must(err)
		c.must(keys.Put(ctx, c.store, k.Term(), protocol.Term{Leader: "old", Session: old,
			TTL: 30 * time.Second, Clear: true}.Encode(), 0))
		c.must(c.store.DestroySession(ctx, old))
		began := time.Now()
		to := c.consul.RoundTripper()
		way, sent := telling(transport.When(to, takesLeadership, transport.Lose(to)),
			takesLeadership)
		c.way = way
		c.start("n9")
		c.way = nil
		<-sent
		time.Sleep(20 * time.Millisecond)
		c.stop("n9")
		c.start("n1")
		c.await("Lead", time.Minute, func() bool { return c.leader() != "" })
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("Lead began after %v, want 30s", took)
		}
	})
}
