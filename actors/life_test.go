package actors_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/supervisor"
	"github.com/hashicorp/consul/api"
)

// The life of a cluster: members come, go, die and come back.

func three(c *cluster, items int, options ...option) {
	c.t.Helper()
	c.addWork(c.items(items)...)
	for _, id := range []string{"n1", "n2", "n3"} {
		c.start(id, options...)
	}
	c.await("the items shared out", 20*time.Second, c.balanced(items))
	c.await("settled", 20*time.Second, func() bool {
		return c.members[c.leader()].c.Distribution().Get().Settled
	})
}

// several is three for more members, n0 and on.
func several(c *cluster, members, items int) {
	c.t.Helper()
	c.addWork(c.items(items)...)
	for i := range members {
		c.start(fmt.Sprintf("n%d", i))
	}
	c.await("shared out", 20*time.Second, c.balanced(items))
}

func TestThreeMembersShareTheWorkOut(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 100)
		for id, n := range c.loads() {
			if n != 33 && n != 34 {
				t.Errorf("%s runs %d items, want 33 or 34", id, n)
			}
		}
		if n := c.totalStarts(); n != 100 {
			t.Errorf("%d starts for 100 items: some moved although nothing had changed", n)
		}
	})
}

func TestAJoinerGetsItsShareAndNothingElseMoves(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 100)
		c.start("n4")
		c.await("four members with 25 each", 20*time.Second, c.balanced(100))
		if n := c.totalStarts() - 100; n != 25 {
			t.Errorf("%d moves for a joiner's share of 25", n)
		}
	})
}

func TestALeaverHandsOverAtOnce(t *testing.T) {
	for name, who := range map[string]func(*cluster) string{"a follower": (*cluster).follower,
		"the leader": (*cluster).leader} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 99)
				c.stop(who(c))
				took := c.await("its items elsewhere", 3*time.Second, c.balanced(99))
				t.Logf("its items run elsewhere after %v", took)
				if n := c.totalStarts() - 99; n != 33 {
					t.Errorf("%d moves for a leaver's 33 items", n)
				}
			})
		})
	}
}

func TestAKilledLeadersItemsAreTakenOverAfterSessionAndGrace(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 99)
		cfg := c.members[c.leader()].c.Settings()
		c.kill(c.leader())
		took := c.await("its items elsewhere", 45*time.Second, c.balanced(99))
		t.Logf("taken over after %v", took)
		// The check's TTL for the session, lock-delay, the grace, merging and soak.
		if least := cfg.CheckTTL*5/6 + cfg.Lease; took < least {
			t.Errorf("taken over after %v: before the session and the grace can have ended", took)
		}
		if n := c.totalStarts() - 99; n != 33 {
			t.Errorf("%d moves for a dead member's 33 items", n)
		}
	})
}

func TestAMemberRestartedUnderItsIdResumesWithNoMove(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 99)
		victim := c.follower()
		was := *c.members[victim].c.Settings().Process
		c.kill(victim)
		time.Sleep(2 * time.Second)
		c.start(victim, func(cfg *actors.Config) {
			cfg.Liveness = func(p actors.Process) actors.Liveness {
				if p.Instance == was.Instance {
					return actors.Dead
				}
				return actors.Unknown
			}
		})
		took := c.await("its items again", 5*time.Second, c.balanced(99))
		t.Logf("resumed after %v", took)
		if n := c.totalStarts() - 99; n != 33 {
			t.Errorf("%d starts to resume 33 items", n)
		}
		time.Sleep(time.Minute)
		if n := c.totalStarts() - 99; n != 33 {
			t.Errorf("%d starts in the end", n)
		}
	})
}

func TestASuccessorOfAFrozenPredecessorWaitsForItsLease(t *testing.T) {
	for name, ack := range map[string]func(c *cluster, key string) error{
		"its ack is there": func(*cluster, string) error { return nil },
		"its ack is gone": func(c *cluster, key string) error {
			_, err := c.client.KV().Delete(key, nil)
			return err
		},
		"its ack is unreadable": func(c *cluster, key string) error {
			_, err := c.client.KV().Put(&api.KVPair{Key: key, Value: []byte("{")}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 99)
				c.start("n4", func(cfg *actors.Config) { cfg.TTL = time.Minute })
				c.await("a share for n4", 30*time.Second, c.balanced(99))
				// Its session is ended early, and it does not learn of that: it is still within its
				// lease, which is longer than its successor's.
				frozen := c.members["n4"]
				session := frozen.c.Session().Get().ID
				frozen.net.Freeze()
				if _, err := c.client.Session().Destroy(session, nil); err != nil {
					t.Fatal(err)
				}
				c.must(ack(c, c.store.Keys().Ack("n4")))
				delete(c.members, "n4")
				c.start("n4")
				time.Sleep(90 * time.Second)
				frozen.cancel()
				frozen.net.Thaw()
				<-frozen.done
				time.Sleep(30 * time.Second)
				if !c.balanced(99)() {
					t.Errorf("in the end: %v", c.loads())
				}
			})
		})
	}
}

// The one that dies last may have been promised a shorter lease than the one before it, which is
// frozen and still at work.
func TestTheGraceCoversThePredecessorOfADeadSuccessor(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 99)
		c.start("n4", func(cfg *actors.Config) { cfg.TTL = time.Minute })
		c.await("a share for n4", 30*time.Second, func() bool {
			return c.loads()["n4"] == 24 && c.balanced(99)()
		})
		frozen := c.members["n4"]
		frozen.net.Freeze()
		if _, err := c.client.Session().Destroy(frozen.c.Session().Get().ID, nil); err != nil {
			t.Fatal(err)
		}
		delete(c.members, "n4")
		successor := c.start("n4")
		c.await("a successor", 30*time.Second, func() bool {
			return successor.c.Membership().Get().Phase == facts.Registered
		})
		session := successor.c.Session().Get().ID
		successor.net.Cut(errKilled)
		successor.cancel()
		<-successor.done
		delete(c.members, "n4")
		if _, err := c.client.Session().Destroy(session, nil); err != nil {
			t.Fatal(err)
		}
		// the successor's grace and more: the frozen one is still within its lease
		time.Sleep(30 * time.Second)
		c.mu.Lock()
		working := 0
		for _, id := range c.judge.Working {
			if id == "n4" {
				working++
			}
		}
		c.mu.Unlock()
		if working == 0 {
			t.Error("the frozen member has stopped before its lease is over: this shows nothing")
		}
		c.await("its items elsewhere", 2*time.Minute, c.balanced(99))
		frozen.cancel()
		frozen.net.Thaw()
		<-frozen.done
	})
}

func TestWorkAddedAndRemovedTakesEffect(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		c.removeWork(c.items(30)[:10]...)
		c.await("20 items", 10*time.Second, c.balanced(20))
		c.addWork("extra_1", "extra_2")
		c.await("22 items", 10*time.Second, c.balanced(22))
	})
}

// A member that is idle holds three long polls and sends nothing but its renewal, with the read
// that confirms it, its reports, and once a minute a look at its instance and its drain.
func TestAnIdleMemberSendsNothingButItsRenewal(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		var idle *member
		for id, m := range c.members {
			if id != c.leader() {
				idle = m
			}
		}
		time.Sleep(30 * time.Second)
		idle.net.Requests()
		time.Sleep(10 * time.Minute)
		renewals, confirmations, reports, others := 0, 0, 0, map[string]int{}
		looks := map[string]int{}
		for call, n := range idle.net.Requests() {
			switch {
			case strings.HasPrefix(call, "PUT /v1/session/renew/"):
				renewals += n
			case strings.HasPrefix(call, "GET /v1/session/info/"):
				confirmations += n
			case strings.HasPrefix(call, "PUT /v1/agent/check/update/"):
				reports += n
			case strings.HasPrefix(call, "GET /v1/agent/service/"),
				strings.HasSuffix(call, "/control/drain/"+idle.id),
				strings.HasSuffix(call, "/states/"+idle.id):
				looks[call] = n
			default:
				others[call] = n
			}
		}
		if renewals < 180 || renewals > 181 {
			t.Errorf("%d renewals in 10 minutes, want one every 3.33 s", renewals)
		}
		if confirmations != renewals {
			t.Errorf("%d renewals and %d reads to confirm them", renewals, confirmations)
		}
		if every := idle.c.Settings().CheckTTL / 8; reports < int(10*time.Minute/every) ||
			reports > int(10*time.Minute/every)+1 {
			t.Errorf("%d reports to its agent in 10 minutes, want one every %v", reports, every)
		}
		for call, n := range looks {
			if len(looks) != 2 || n < 9 || n > 11 {
				t.Errorf("%s: %d times in 10 minutes, want one a minute", call, n)
			}
		}
		if len(others) != 3 {
			t.Errorf("besides its renewal it called %v, want its three long polls", others)
		}
		for call, n := range others {
			if !strings.HasPrefix(call, "GET /v1/kv/") || n > 11 {
				t.Errorf("%s: %d times in 10 minutes, want a long poll of a minute", call, n)
			}
		}
	})
}

func TestWorkThatCrashesOrReturnsIsStartedAgainAndHurtsNobodyElse(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork("crash", "panic", "return", "nil pointer", "escalate", "good")
		var starts [5]atomic.Int32
		m := c.start("n1", func(cfg *actors.Config) {
			good := cfg.Work
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				switch item.ID {
				case "crash":
					starts[0].Add(1)
					return errors.New("cannot work")
				case "panic":
					starts[1].Add(1)
					panic("at work")
				case "return":
					starts[2].Add(1)
					return nil
				case "nil pointer":
					starts[3].Add(1)
					var e *fs.PathError
					return e
				case "escalate": // a word to a supervisor, in whose tree the work is not
					starts[4].Add(1)
					return fmt.Errorf("wrapped: %w", supervisor.Escalate(errors.New("x")))
				}
				return good(ctx, item)
			}
		})
		time.Sleep(2 * time.Minute)
		for i := range starts {
			if n := starts[i].Load(); n < 8 || n > 60 {
				t.Errorf("started %d times in two minutes: want again and again, with backoff", n)
			}
		}
		select {
		case <-m.done:
			t.Errorf("the member has ended: %v", m.err)
		default:
		}
		if n := c.startsOf("good"); n != 1 {
			t.Errorf("good was started %d times", n)
		}
	})
}

func TestWorkThatIgnoresItsOrderToStopIsNotReleased(t *testing.T) {
	run(t, func(c *cluster) {
		release := make(chan struct{})
		c.start("n1", func(cfg *actors.Config) {
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				c.mu.Lock()
				c.judge.Working[item.ID] = "n1"
				c.mu.Unlock()
				<-release
				c.mu.Lock()
				delete(c.judge.Working, item.ID)
				c.mu.Unlock()
				return nil
			}
		})
		c.addWork(c.items(4)...)
		c.await("n1 has all", 10*time.Second, func() bool { return c.loads()["n1"] == 4 })
		c.start("n2")
		time.Sleep(time.Minute)
		if n := c.loads()["n2"]; n != 0 {
			t.Errorf("n2 runs %d items that n1 never gave up", n)
		}
		close(release)
		c.await("balance", 30*time.Second, func() bool { return c.loads()["n2"] == 2 })
	})
}

func TestPayloadWeightAndTokenReachTheWork(t *testing.T) {
	run(t, func(c *cluster) {
		if err := keys.Put(c.t.Context(), c.store, c.store.Keys().WorkItem("w"), []byte("hello"),
			7); err != nil {
			t.Fatal(err)
		}
		got := make(chan actors.Item, 1)
		c.start("n1", func(cfg *actors.Config) {
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				got <- item
				<-ctx.Done()
				return nil
			}
		})
		item := <-got
		m := c.members["n1"].c.Membership().Get()
		if item.ID != "w" || string(item.Payload) != "hello" || item.Weight != 7 ||
			item.Grant <= m.Index || item.Token != facts.Token(item.Grant, 1) {
			t.Errorf("the work got %+v; the record's index is %d", item, m.Index)
		}
	})
}

// Work that ends at once is called again every ten seconds: for more than a day.
func TestTheTokenRisesWithEachRunAndAGrantWithoutMoreTokensIsGivenAnew(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork("w")
		var last actors.Item
		again := make(chan struct{})
		c.start("n1", func(cfg *actors.Config) {
			cfg.TTL, cfg.CheckTTL = time.Hour, actors.NoCheck // for few renewals
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				first := item.Grant != last.Grant
				if item.Token <= last.Token || first != (item.Token == facts.Token(item.Grant, 1)) {
					t.Errorf("a run with token %d of grant %d, after %d of %d", item.Token,
						item.Grant, last.Token, last.Grant)
				}
				begin := last.Token == 0
				last = item
				if first && !begin {
					close(again)
					<-ctx.Done()
				}
				return nil
			}
		})
		<-again
	})
}

func TestWaitForLeaderAndKV(t *testing.T) {
	run(t, func(c *cluster) {
		m := c.start("n1")
		if id, err := m.c.WaitForLeader(c.t.Context()); id != "n1" || err != nil {
			t.Errorf("leader %q, %v", id, err)
		}
		kv := m.c.KV()
		if _, err := kv.Get(c.t.Context(), "a"); !errors.Is(err, actors.ErrNotFound) {
			t.Errorf("get of a missing key: %v", err)
		}
		m.net.Cut(errors.New("connection refused"))
		time.AfterFunc(3*time.Second, func() { m.net.Cut(nil) })
		if err := kv.Put(c.t.Context(), "a", nil); err != nil {
			t.Errorf("put across an outage: %v", err)
		}
		if v, err := kv.Get(c.t.Context(), "a"); err != nil || len(v) != 0 {
			t.Errorf("an empty value: %q, %v", v, err)
		}
		if err := kv.Delete(c.t.Context(), "a"); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		m.net.Freeze()
		defer m.net.Thaw()
		if _, err := kv.Get(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get of a frozen Consul: %v", err)
		}
	})
}

func TestNothingIsLeftInConsulAfterACleanStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		three(c, 10)
		for id := range c.members {
			c.stop(id)
		}
		entries, _, err := c.store.List(c.t.Context(), c.store.Keys().Root(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			// What the service itself keeps: without the term a late take would be as good as a new
			// one, and the event log is for those who come later.
			service := e.Key == c.store.Keys().Term() || e.Key == c.store.Keys().LeaderState() ||
				e.Key == c.store.Keys().Workload() || e.Key == c.store.Keys().Control() ||
				strings.HasPrefix(e.Key, c.store.Keys().Sequence("")) ||
				strings.HasPrefix(e.Key, c.store.Keys().Events())
			if _, ok := c.store.Keys().ParseWorkItem(e.Key); !ok && !service {
				t.Errorf("left behind: %s = %s", e.Key, e.Value)
			}
		}
		if sessions, _, _ := c.client.Session().List(nil); len(sessions) != 0 {
			t.Errorf("%d sessions left behind", len(sessions))
		}
		c.consul.Close()
		c.verify()
	})
}
