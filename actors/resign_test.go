package actors_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A resignation is conditioned by what it has read. Between its read and its write others may
// write, and what the leader itself has sent last, which a stop cuts off, may be carried out.

// resignsBeside has n9 stop just after it has sent a request that aimed picks, which takes from
// less to more than what a resignation takes. Another's Lead is to begin at once.
func resignsBeside(t *testing.T, aimed func(*http.Request) bool, begin func(c *cluster)) {
	for _, takes := range []time.Duration{50, 100, 150, 200, 250} { // others take 60 ms
		for name, o := range map[string]option{"releases": keeping(0),
			"keeps": keeping(time.Minute)} {
			run(t, func(c *cluster) {
				begin(c)
				to := c.consul.RoundTripper()
				way, sent := telling(transport.When(finishes(to, 60*time.Millisecond, true), aimed,
					finishes(to, takes*time.Millisecond, true)), aimed)
				c.way = way
				m := c.start("n9", o)
				c.way = nil
				<-sent
				time.Sleep(20 * time.Millisecond)
				c.stop("n9")
				c.start("n1")
				if took := c.await("another Lead", time.Minute, func() bool {
					return c.leader() != ""
				}); took > m.c.Settings().Formulas().HandOver.Total() {
					t.Errorf("it %s its items, its write takes %v: another Lead after %v", name,
						takes*time.Millisecond, took)
				}
			})
		}
	}
}

// writesBesideTheLeader picks the leader's own writes of that verb to that key.
func writesBesideTheLeader(verb, key string) func(*http.Request) bool {
	return transport.TxnWith(`"Verb":"check-index","Key":"service/demo/leader"`,
		`"Verb":"`+verb+`","Key":"service/demo/`+key+`"`)
}

// A new epoch moves the leader key.
func TestALeaderThatStopsWhileANewEpochIsOnItsWayResigns(t *testing.T) {
	resignsBeside(t, transport.TxnWith(`"Verb":"check-session","Key":"service/demo/leader"`),
		func(*cluster) {})
}

// That no leader before can count on its lease any more moves the term.
func TestALeaderThatStopsWhileItSaysThatItsTermIsClearResigns(t *testing.T) {
	says := writesBesideTheLeader("cas", "term")
	resignsBeside(t, func(r *http.Request) bool {
		return says(r) && !strings.Contains(transport.Txn(r), `"delete"`)
	}, func(c *cluster) {
		ctx, k := c.t.Context(), c.store.Keys()
		old, _, err := c.store.CreateSession(ctx, store.SessionOptions{TTL: 10 * time.Second})
		c.must(err)
		c.must(c.store.Put(ctx, k.Term(), protocol.Term{Leader: "old", Session: old,
			TTL: 10 * time.Second, Clear: true}.Encode(), 0))
		c.must(c.store.DestroySession(ctx, old))
	})
}

// readsTheTerm picks the reads of the leader key and the term.
var readsTheTerm = transport.TxnWith("get-or-empty", `/term"`)

// After a hand-over nobody led for 15 s, for its session kept the key; a stop cost a lease.
func TestTheLeadershipIsGivenUpThoughOthersWriteMeanwhile(t *testing.T) {
	for _, key := range []string{"leader", "term"} {
		for name, givesUp := range map[string]func(c *cluster, leader string){
			"stops": (*cluster).stop,
			"is drained": func(c *cluster, leader string) {
				c.must(c.operator().Drain(c.t.Context(), leader))
			},
		} {
			run(t, func(c *cluster) {
				three(c, 9)
				leader, to, once := c.leader(), c.consul.RoundTripper(), atomic.Bool{}
				c.members[leader].net.Via(transport.When(to, func(r *http.Request) bool {
					return readsTheTerm(r) && !once.Swap(true)
				}, func(r *http.Request) (*http.Response, error) {
					resp, err := to.RoundTrip(r)
					e, _, _, readErr := c.store.Get(c.t.Context(), c.store.Keys().Root()+key,
						store.Consistent)
					c.must(readErr)
					c.must(c.store.Put(c.t.Context(), e.Key, append(e.Value, ' '), e.Flags+7))
					return resp, err
				}))
				givesUp(c, leader)
				if took := c.await("another Lead", time.Minute, func() bool {
					l := c.leader()
					return l != "" && l != leader
				}); took > 2*time.Second || !once.Load() {
					t.Errorf("%s is written to while the leader %s: another Lead after %v", key,
						name, took)
				}
			})
		}
	}
}

// The stop is no failure, and nothing is left to be said of the key.
func TestAHandOverWhoseAnswerAStopCutsOffIsAResignation(t *testing.T) {
	run(t, func(c *cluster) {
		var said testkit.Output
		c.log = slog.New(slog.NewTextHandler(&said, nil))
		three(c, 9)
		leader, to := c.leader(), c.consul.RoundTripper()
		aimed, once := transport.TxnWith(`"delete"`, `demo/leader"`), atomic.Bool{}
		way, sent := telling(transport.When(to, func(r *http.Request) bool {
			return aimed(r) && !once.Swap(true)
		}, transport.Mute(to)), aimed)
		c.members[leader].net.Via(way)
		c.must(c.operator().Drain(c.t.Context(), leader))
		<-sent
		time.Sleep(20 * time.Millisecond)
		c.stop(leader)
		if text := said.String(); strings.Contains(text, "not-resigned") ||
			!strings.Contains(text, "msg=resigned") {
			t.Errorf("it does not say that it has resigned:\n%s", text)
		}
	})
}
