package actors_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/messages"
)

// What strangers, operators and a bad network do to a cluster's keys and requests.

func TestATouchedLeaderKeyCostsAnEpochAndNothingElse(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		leader := c.members[c.leader()]
		before := leader.c.Leadership().Get()
		c.put("leader", "somebody else") // a plain PUT keeps the lock, and resets LockIndex
		time.Sleep(2 * time.Second)
		after := leader.c.Leadership().Get()
		if after.Term != before.Term || after.Epoch <= before.Epoch {
			t.Errorf("leadership before %+v, after %+v: want a new epoch of the same term", before, after)
		}
		c.addWork("late")
		c.await("the new item", 10*time.Second, c.balanced(31))
		if n := c.totalStarts(); n != 31 {
			t.Errorf("%d starts of 31 items", n)
		}
	})
}

func TestADeletedLeaderKeyMakesANewTermAndMovesNothing(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		c.delete("leader")
		c.await("a leader", 10*time.Second, func() bool { return c.leader() != "" })
		c.addWork("late")
		c.await("the new item", 20*time.Second, c.balanced(31))
		if n := c.totalStarts(); n != 31 {
			t.Errorf("%d starts of 31 items", n)
		}
	})
}

func TestADestroyedSessionEndsTheLeadershipAndTheMemberComesBack(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		leader := c.leader()
		if _, err := c.client.Session().Destroy(c.members[leader].c.Session().Get().ID, nil); err != nil {
			t.Fatal(err)
		}
		c.await("everything again", 60*time.Second, func() bool {
			return c.leader() != "" && c.balanced(30)() && c.members[leader].c.Membership().Get().Phase == messages.Registered
		})
	})
}

func TestADeletedMemberRecordIsWrittenAgainAndNothingIsTakenOver(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		c.delete("members/" + victim)
		time.Sleep(time.Minute)
		if !c.balanced(30)() || c.loads()[victim] != 10 {
			t.Errorf("loads %v", c.loads())
		}
		if n := c.totalStarts(); n > 40 {
			t.Errorf("%d starts: want 30, and at most 10 again at the member whose record was deleted", n)
		}
		if m := c.members[victim].c.Membership().Get(); m.Phase != messages.Registered {
			t.Errorf("membership %+v", m)
		}
	})
}

func TestAnOverwrittenMemberRecordIsWrittenAgain(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		c.put("members/"+victim, "{garbage")
		time.Sleep(time.Minute)
		e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Member(victim), 0)
		if err != nil || !bytes.Contains(e.Value, []byte(`"alive"`)) {
			t.Errorf("the record reads %s, %v", e.Value, err)
		}
		if n := c.totalStarts(); n != 30 || !c.balanced(30)() {
			t.Errorf("%d starts, loads %v", n, c.loads())
		}
	})
}

func TestStrangersKeysStallNothing(t *testing.T) {
	run(t, func(c *cluster) {
		for _, key := range []string{
			"members/x/y", "members/", "members/plain", "workload/a/b", "workload/", "assignments/odd", "assignments/", "assignments/nobody/",
			"assignments/n1/a/b", "acks/", "acks/n9", "acks/a/b", "control/whatever", "control/pins/", "control/drain/a/b", "unknown/key",
		} {
			c.put(key, "\x00 not for us {")
		}
		three(c, 30)
		c.stop(c.follower())
		c.await("its items elsewhere", 5*time.Second, c.balanced(30))
	})
}

func TestAnAssignmentThatAStrangerOverwroteIsTakenBackAndGrantedAnew(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		c.mu.Lock()
		at := c.running["device_group_0007"]
		c.mu.Unlock()
		c.put("assignments/"+at+"/device_group_0007", "no such order")
		time.Sleep(30 * time.Second)
		if n := c.totalStarts(); n > 31 || !c.balanced(30)() {
			t.Errorf("%d starts, loads %v", n, c.loads())
		}
		e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Assignment(at, "device_group_0007"), 0)
		if err == nil && bytes.Contains(e.Value, []byte("no such order")) {
			t.Error("the key still holds what the stranger wrote")
		}
	})
}

func TestAnAssignmentThatAStrangerDeletedIsGrantedAnew(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		c.mu.Lock()
		at := c.running["device_group_0007"]
		c.mu.Unlock()
		c.delete("assignments/" + at + "/device_group_0007")
		c.await("stopped", 5*time.Second, func() bool { return sum(c.loads()) == 29 })
		c.await("granted again", 10*time.Second, c.balanced(30))
	})
}

func TestAStrangersUnlockedRecordKeepsNobodysItems(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		c.kill(victim)
		c.await("the record gone with its session", 40*time.Second, func() bool {
			_, found, _, _ := c.store.Get(c.t.Context(), c.store.Keys().Member(victim), 0)
			return !found
		})
		c.put("members/"+victim, "alive")
		c.await("its items elsewhere", 40*time.Second, c.balanced(30))
	})
}

func TestIDsThatAreEachOthersPrefixesDoNotMixUp(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork("w", "w1", "w10", "w100", "v", "v1")
		for _, id := range []string{"m", "m1", "m10"} {
			c.start(id)
		}
		c.await("two each", 20*time.Second, c.balanced(6))
		c.stop("m1")
		c.await("three each", 5*time.Second, c.balanced(6))
		if c.loads()["m10"] != 3 || c.loads()["m"] != 3 {
			t.Errorf("loads %v", c.loads())
		}
	})
}

func TestTheBrakeHoldsAVanishedWorkloadUntilAnOperatorSaysObey(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !c.balanced(60)() {
			t.Errorf("the brake did not hold: %v", c.loads())
		}
		if b := c.members[c.leader()].c.Plan().Get().Brake; !strings.Contains(b, "60 of 60") {
			t.Errorf("the plan does not say why nothing happens: %q", b)
		}
		c.put("control/obey", time.Now().String())
		c.await("all work ended", 10*time.Second, c.balanced(0))
	})
}

// Nobody leads while the order is given: the next leader finds it there.
func TestARemovalWhileNobodyLeadsIsObeyed(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		op, err := actors.NewOperator(c.client, "demo")
		if err != nil {
			t.Fatal(err)
		}
		c.kill(c.leader())
		if err := op.RemoveWork(c.t.Context(), c.items(50)...); err != nil {
			t.Fatal(err)
		}
		c.addWork("extra_1")
		c.await("the rest and the new one", time.Minute, c.balanced(11))
	})
}

// An order of the past is about something else: the next leader's brake holds.
func TestAnOrderToObeyIsForgottenByLaterLeaders(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		op, err := actors.NewOperator(c.client, "demo")
		if err != nil {
			t.Fatal(err)
		}
		if err := op.Obey(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		c.kill(c.leader())
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := c.totalStarts(); n != 60 || c.leader() == "" {
			t.Errorf("%d starts, leader %q", n, c.leader())
		}
		if b := c.members[c.leader()].c.Plan().Get().Brake; !strings.Contains(b, "60 of 60") {
			t.Errorf("the plan does not say that the brake holds: %q", b)
		}
	})
}

// Most of the workload goes, one watch after the other.
func TestTheBrakeHoldsAWorkloadThatVanishesBitByBit(t *testing.T) {
	for gap, want := range map[time.Duration]int{45 * time.Millisecond: 30, 600 * time.Millisecond: 22} {
		t.Run(gap.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 30)
				time.Sleep(10 * time.Second)
				items := c.items(30)
				c.removeWork(items[:8]...)
				time.Sleep(gap)
				c.removeWork(items[8:18]...)
				time.Sleep(time.Minute)
				running := func() (n int) {
					for _, l := range c.loads() {
						n += l
					}
					return n
				}
				if n := running(); n != want {
					t.Errorf("%d of 30 items run on, want %d: 8, and then 10 of them were deleted", n, want)
				}
				o, err := actors.NewOperator(c.client, "demo")
				if err != nil {
					t.Fatal(err)
				}
				if s, err := o.Status(c.t.Context()); err != nil || !strings.Contains(s.Brake, "18 of 30") {
					t.Errorf("the status says of the brake: %q, %v", s.Brake, err)
				}
				c.put("control/obey", time.Now().Format(time.RFC3339Nano))
				c.await("the order to be obeyed", 5*time.Second, func() bool { return running() == 12 })
				if s, err := o.Status(c.t.Context()); err != nil || s.Brake != "" {
					t.Errorf("afterwards the status says of the brake: %q, %v", s.Brake, err)
				}
				// Slowly is somebody's wish.
				for _, item := range items[18:29] {
					c.removeWork(item)
					time.Sleep(time.Second)
				}
				c.await("all but one given up", 5*time.Second, func() bool { return running() == 1 })
			})
		})
	}
}

func TestABrakeLetsGoWhenTheItemsAreBack(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.addWork(c.items(60)...)
		time.Sleep(time.Minute)
		if b := c.members[c.leader()].c.Plan().Get().Brake; b != "" || c.totalStarts() != 60 {
			t.Errorf("brake %q, %d starts", b, c.totalStarts())
		}
	})
}

func TestMostMembersVanishingAtOnceIsBrakedForAWhileOnly(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(60)...)
		for i := range 8 {
			c.start(fmt.Sprintf("n%d", i))
		}
		c.await("shared out", 20*time.Second, c.balanced(60))
		leader := c.leader()
		for i := range 8 {
			if id := fmt.Sprintf("n%d", i); id != leader && len(c.members) > 3 {
				c.kill(id)
			}
		}
		time.Sleep(50 * time.Second) // sessions and grace are over
		if c.balanced(60)() {
			t.Error("five of eight members vanished, and the rest was loaded with it at once")
		}
		c.await("taken over after all", 60*time.Second, c.balanced(60))
	})
}

func TestFreezeDrainAndPins(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		c.put("control/drain/"+victim, "")
		c.await("drained", 10*time.Second, func() bool { l := c.loads(); return l[victim] == 0 && sum(l) == 30 })
		c.delete("control/drain/" + victim)
		c.await("back in balance", 20*time.Second, c.balanced(30))
		pinned := c.items(1)[0]
		c.put("control/pins/"+pinned, victim)
		c.await("pinned", 20*time.Second, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.running[pinned] == victim
		})
		c.await("in balance", 20*time.Second, c.balanced(30))
		c.put("control/freeze", "")
		time.Sleep(time.Second)
		c.addWork("later")
		time.Sleep(time.Minute)
		if sum(c.loads()) != 30 {
			t.Error("frozen, and it was assigned")
		}
		c.delete("control/freeze")
		c.await("thawed", 10*time.Second, c.balanced(31))
	})
}

func sum(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

// delayer keeps one transaction back and answers its sender with a time-out; it
// arrives when it is let go, after newer ones.
type delayer struct {
	to    http.RoundTripper
	match func(body string) bool

	mu   sync.Mutex
	held []*http.Request
}

func (d *delayer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || !strings.HasPrefix(r.URL.Path, "/v1/txn") {
		return d.to.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.mu.Lock()
	hold := d.match != nil && d.match(string(body))
	if hold {
		d.match = nil
		later := r.Clone(r.Context())
		later.Body = io.NopCloser(bytes.NewReader(body))
		d.held = append(d.held, later)
	}
	d.mu.Unlock()
	if hold {
		return nil, errors.New("i/o timeout")
	}
	return d.to.RoundTrip(r)
}

// deliver lets what was held arrive now, and returns the status codes.
func (d *delayer) deliver(t *testing.T) (codes []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.held {
		resp, err := d.to.RoundTrip(r.Clone(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		codes = append(codes, resp.StatusCode)
	}
	d.held = nil
	return codes
}

func TestAWriteThatArrivesLateIsRefused(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(30)...)
		m := c.start("n1")
		d := &delayer{to: c.consul.RoundTripper()}
		m.net.via(d)
		c.await("all at n1", 10*time.Second, c.balanced(30))
		d.mu.Lock()
		d.match = func(body string) bool {
			return strings.Contains(body, "check-index") && strings.Contains(body, "late")
		}
		d.mu.Unlock()
		c.addWork("late")
		c.await("late granted all the same", 20*time.Second, c.balanced(31))
		c.start("n2")
		c.await("in balance", 20*time.Second, c.balanced(31))
		if codes := d.deliver(c.t); len(codes) != 1 || codes[0] != http.StatusConflict {
			t.Errorf("the late write was answered %v, want one 409", codes)
		}
		time.Sleep(30 * time.Second)
		if !c.balanced(31)() {
			t.Errorf("in the end %v", c.loads())
		}
	})
}

// A write whose reply is lost has been applied: the leader must not do it twice,
// nor believe that it was not done.
func TestALostReplyOfACommittedWriteIsFoundOut(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(9)...)
		m := c.start("n1")
		m.net.via(&loser{to: c.consul.RoundTripper(), next: 30})
		c.await("all at n1", 60*time.Second, c.balanced(9))
		c.start("n2")
		c.await("in balance", 60*time.Second, c.balanced(9))
		time.Sleep(time.Minute)
		if !c.balanced(9)() {
			t.Errorf("in the end %v", c.loads())
		}
	})
}

// loser loses the replies of every second transaction, next times.
type loser struct {
	to http.RoundTripper

	mu   sync.Mutex
	next int
	n    int
}

func (l *loser) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.to.RoundTrip(r)
	if err != nil || r.Method != http.MethodPut || strings.HasPrefix(r.URL.Path, "/v1/session/renew") {
		return resp, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if l.n%2 == 0 && l.next > 0 {
		l.next--
		resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return resp, nil
}

func TestAMemberWithoutWorkLeadsAndRunsNothing(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(10)...)
		c.start("n1", func(cfg *actors.Config) { cfg.Work = nil })
		c.await("n1 leads", 10*time.Second, func() bool { return c.leader() == "n1" })
		c.start("n2")
		c.await("all at n2", 20*time.Second, func() bool { l := c.loads(); return l["n2"] == 10 && l["n1"] == 0 })
	})
}

func TestCapacityIsAHardLimit(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(10)...)
		c.start("n1", func(cfg *actors.Config) { cfg.Capacity = 4 })
		time.Sleep(20 * time.Second)
		if n := c.loads()["n1"]; n != 4 {
			t.Errorf("n1 runs %d items with room for 4", n)
		}
		if p := c.members["n1"].c.Plan().Get(); p.Unplaced != 6 || p.Free != 6 {
			t.Errorf("the plan says %+v, want 6 unplaced", p)
		}
		c.start("n2")
		c.await("all placed", 20*time.Second, func() bool { l := c.loads(); return l["n1"] <= 4 && sum(l) == 10 })
	})
}

func TestAMemberGoesOnWithItsEarlierRegistrationAfterARestore(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		snapshot := c.consul.Snapshot()
		// It registers again, under the same session: the snapshot's record is older than what it knows.
		c.delete("members/" + victim)
		c.await("its items again", 30*time.Second, c.balanced(30))
		if err := c.consul.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.mu.Lock()
		clear(c.tokens) // a Consul that forgets what it had promised may hand out lower ones
		c.mu.Unlock()
		c.removeWork(c.items(3)...)
		c.addWork("new-1", "new-2", "new-3", "new-4", "new-5", "new-6")
		// A poll that waits for an index that will not come again lasts for its whole minute.
		c.await("all of it runs", 100*time.Second, c.balanced(33))
		if c.loads()[victim] != 11 {
			t.Errorf("%s runs %d items", victim, c.loads()[victim])
		}
	})
}

// The keys that the leaders write for one another are overwritten by a stranger, time and again.
func TestAStrangeTermOrOfficeStopsNothingAndStartsNothingEarly(t *testing.T) {
	for _, value := range []string{"", "n1", "{", `{"ttl":9223372036854775807,"clear":true,"resigned":true}`, `{"ttl":-1}`, `{"absent":{"n1":{"ack":7,"sid":"x","for":9223372036854775807}},"brake":"\u001b]52"}`} {
		t.Run(value, func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 30)
				time.Sleep(10 * time.Second)
				old := c.leader()
				bound := c.members[old].c.Settings().Bounds()
				c.put("term", value)
				c.put("office", value)
				c.blind(old)
				time.Sleep(3 * time.Second)
				c.put("office", value)
				c.put("term", value)
				if leads, _ := c.awaitLead(bound.TakeOverLead, old); leads == "" {
					t.Error("nobody leads")
				}
				c.await("the items taken over", bound.TakeOver, func() bool {
					n := 0
					for id, load := range c.loads() {
						if id != old {
							n += load
						}
					}
					return n == 30
				})
				o, err := actors.NewOperator(c.client, "demo")
				if err != nil {
					t.Fatal(err)
				}
				if s, err := o.Status(c.t.Context()); err != nil || s.Brake != "" {
					t.Errorf("the status says of the brake: %q, %v", s.Brake, err)
				}
				next := c.awaitTerm(time.Second, old)
				c.put("term", value)
				c.stop(next) // a resignation with a term that says nothing
				c.awaitLead(15*time.Second, old)
			})
		})
	}
}

// What was meant with an order to obey takes its time; what vanishes meanwhile was not meant.
func TestAnOrderToObeyCountsForWhatHadVanishedByThen(t *testing.T) {
	run(t, func(c *cluster) {
		items := c.items(40)
		c.addWork(items...)
		for _, id := range []string{"n1", "n2", "n3"} {
			c.start(id, func(cfg *actors.Config) {
				work := cfg.Work
				cfg.Work = func(ctx context.Context, item actors.Item) error {
					if slices.Contains(items[:20], item.ID) {
						own, cancel := context.WithCancel(context.WithoutCancel(ctx))
						defer cancel()
						defer context.AfterFunc(ctx, func() {
							time.AfterFunc(3*time.Minute, cancel) // it takes its time
						})()
						return work(own, item)
					}
					return work(ctx, item)
				}
				cfg.StopTimeout = 4 * time.Minute
			})
		}
		c.await("shared out", time.Minute, c.balanced(40))
		op, err := actors.NewOperator(c.client, "demo")
		if err != nil {
			t.Fatal(err)
		}
		if err := op.RemoveWork(c.t.Context(), items[:25]...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !c.runs(items[25:])() {
			t.Errorf("the brake did not hold for what vanished a minute after the order: %v", c.loads())
		}
		c.addWork(items[25:]...)
		time.Sleep(3 * time.Minute)
		if b := c.members[c.leader()].c.Plan().Get().Brake; b != "" || !c.balanced(15)() {
			t.Errorf("at last: brake %q, loads %v", b, c.loads())
		}
	})
}
