package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/store"
)

// limited is a member that gives work up which has ended n times by itself in ten minutes.
func limited(n int) option {
	return func(cfg *actors.Config) { cfg.MaxRestarts = n }
}

// failing makes the work of items end at once at a member, while broken says so, and counts that.
func (w watched) failing(tries *atomic.Int64, broken func(member, item string) bool) option {
	return func(cfg *actors.Config) {
		work, id := cfg.Work, cfg.ID
		cfg.Work = func(ctx context.Context, x actors.Item) error {
			if broken(id, x.ID) {
				tries.Add(1)
				return errors.New("exit status 3")
			}
			return work(ctx, x)
		}
	}
}

// item is what is known of one item.
func (w watched) item(id string) operator.ItemStatus {
	w.t.Helper()
	e, err := w.op.Explain(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return e.ItemStatus
}

func (w watched) state(id string, state operator.ItemState) func() bool {
	return func() bool { return w.item(id).State == state }
}

// quarantined waits until an item is.
func (w watched) quarantined(id string) operator.ItemStatus {
	w.t.Helper()
	w.await(id+" is quarantined", time.Minute, w.state(id, operator.ItemQuarantined))
	return w.item(id)
}

func (w watched) noted(id string) bool {
	_, found, _, err := w.store.Get(w.t.Context(), w.store.Keys().Quarantine(id), store.Default)
	w.must(err)
	return found
}

func TestAnItemThatFailsAtOneMemberRunsAtAnother(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		sick := func(member, _ string) bool { return member == "n1" }
		items := w.items(9)
		w.addWork(items...)
		for _, id := range []string{"n1", "n2", "n3"} {
			w.start(id, limited(3), w.failing(&tries, sick))
		}
		// n1 has the fewest items, and so gets each of them once.
		w.await("all run at n2 and n3", 10*time.Minute, func() bool {
			return w.loads()["n2"]+w.loads()["n3"] == 9 && w.since(0)["revoked n1> failing"] == 9
		})
		// Each fails once more until it is told to stop.
		if got := tries.Load(); got < 36 || got > 54 {
			t.Errorf("%d tries at n1 of 9 items, that may be restarted three times", got)
		}
		moved := w.item(items[0])
		for _, id := range items {
			if i := w.item(id); len(i.FailedAt) > 0 {
				moved = i
			}
		}
		if !slices.Equal(moved.FailedAt, []string{"n1"}) || moved.Reason != "failing" {
			t.Errorf("an item that has failed at n1 is %+v", moved)
		}
		status, err := w.op.Status(w.t.Context())
		w.must(err)
		if got := status.Problem(); got != "work fails at n1: 9 items moved elsewhere" {
			t.Errorf("wrong is %q", got)
		}
		last, starts := w.last(), w.totalStarts()
		time.Sleep(30 * time.Minute) // nothing goes back, and nothing moves
		if n := w.since(last); len(n) > 0 || w.totalStarts() != starts {
			t.Errorf("later there was %v, and %d starts more", n, w.totalStarts()-starts)
		}
		// A member that is registered anew may have been mended.
		w.stop("n1")
		sick = func(string, string) bool { return false }
		w.start("n1", limited(3), w.failing(&tries, sick))
		w.await("n1 has its share", time.Minute, w.balanced(9))
	})
}

func TestAnItemThatFailsAtTwoMembersIsRunByNobody(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		var mended atomic.Bool
		items := w.items(5)
		sick := func(_, item string) bool { return item == items[2] && !mended.Load() }
		w.addWork(items...)
		ids := []string{"n1", "n2", "n3"}
		for _, id := range ids {
			w.start(id, limited(3), w.failing(&tries, sick))
		}
		i := w.quarantined(items[2])
		if len(i.FailedAt) != 2 || i.Member != "" || i.LastExit != "exit status 3" ||
			i.Since.IsZero() || !strings.Contains(i.Why, i.FailedAt[0]+" and at "+i.FailedAt[1]) {
			t.Errorf("it is %+v", i)
		}
		if got := tries.Load(); got < 8 || got > 14 {
			t.Errorf("%d tries at two members, with three restarts at each", got)
		}
		still := func(when string) {
			t.Helper()
			before := tries.Load()
			time.Sleep(10 * time.Minute)
			if now := w.item(items[2]); now.State != operator.ItemQuarantined ||
				!now.Since.Equal(i.Since) || tries.Load() != before {
				t.Errorf("%s: it is %+v, and was tried %d times", when, now, tries.Load()-before)
			}
		}
		still("after a while")
		status, err := w.op.Status(w.t.Context())
		w.must(err)
		if got := status.Problem(); got != "1 item is quarantined: "+items[2] ||
			status.Work.States[operator.ItemQuarantined] != 1 {
			t.Errorf("wrong is %q, the states are %v", got, status.Work.States)
		}
		plan := w.members[w.leader()].c.Distribution().Get()
		if plan.Quarantined != 1 || plan.Free != 0 || plan.Unplaced != 0 || !plan.Settled {
			t.Errorf("the plan is %+v", plan)
		}
		// A new leader, a new epoch, restarts of all members, an older order: it stays so.
		w.kill(w.leader())
		still("after a leader was lost")
		for _, id := range ids {
			if m := w.members[id]; m != nil {
				w.stop(id)
			}
			w.start(id, limited(3), w.failing(&tries, sick))
		}
		still("after all were restarted")
		w.put("leader", "a stranger's")
		still("after a new epoch")
		w.must(w.op.Pin(w.t.Context(), items[2], "n1"))
		still("after it was pinned")
		w.must(w.op.Unpin(w.t.Context(), items[2]))
		// An order to restart takes it out, once, with as many tries as before.
		before := tries.Load()
		w.must(w.op.Restart(w.t.Context(), items[2]))
		w.await("it is tried", time.Minute, func() bool { return tries.Load() > before })
		i = w.quarantined(items[2])
		if got := tries.Load() - before; got < 8 || got > 14 {
			t.Errorf("%d tries after the order", got)
		}
		still("after the order")
		mended.Store(true)
		w.must(w.op.Restart(w.t.Context(), items[2]))
		w.await("it runs", time.Minute, func() bool {
			return w.item(items[2]).State == operator.ItemRunning
		})
		if w.noted(items[2]) {
			t.Error("it is noted still that it failed")
		}
		n := map[string]int{}
		for _, e := range w.events() {
			n[e.Kind] += len(e.Items)
		}
		if n["quarantined"] != 2 || n["unquarantined"] != 2 {
			t.Errorf("the events are %v", n)
		}
	})
}

func TestAnItemWithoutAnotherMemberIsQuarantinedAtOnce(t *testing.T) {
	for _, c := range []struct {
		why   string
		given func(w watched, id string)
	}{
		{"no other member takes it", func(watched, string) {}},
		{"no other member takes it", func(w watched, _ string) {
			w.start("n2", func(cfg *actors.Config) { cfg.Work = nil })
			w.start("n3")
			w.must(w.op.Drain(w.t.Context(), "n3"))
		}},
		{"no other member takes it", func(w watched, id string) {
			w.start("n2")
			w.must(w.op.Pin(w.t.Context(), id, "n1"))
		}},
	} {
		logged(t, func(w watched) {
			var tries atomic.Int64
			c.given(w, "a")
			w.addWork("a")
			w.start("n1", limited(2), w.failing(&tries, func(string, string) bool { return true }))
			if i := w.quarantined("a"); !strings.Contains(i.Why, c.why) ||
				!slices.Equal(i.FailedAt, []string{"n1"}) {
				t.Errorf("it is %+v; want %q", i, c.why)
			}
			if got := tries.Load(); got < 3 || got > 7 {
				t.Errorf("%d tries", got)
			}
		})
	}
}

func TestWithoutALimitWorkIsRestartedForEver(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		w.addWork("a")
		w.start("n1", w.failing(&tries, func(string, string) bool { return true }))
		w.start("n2")
		w.await("it is tried", time.Minute, func() bool { return tries.Load() > 0 })
		time.Sleep(time.Hour)
		if i := w.item("a"); i.State != operator.ItemLooping || i.Member != "n1" {
			t.Errorf("it is %+v", i)
		}
	})
}

func TestWorkThatFailsSeldomIsNotGivenUp(t *testing.T) {
	logged(t, func(w watched) {
		w.addWork("a")
		w.start("n1", limited(3), func(cfg *actors.Config) {
			cfg.Work = func(ctx context.Context, _ actors.Item) error {
				select {
				case <-time.After(4 * time.Minute): // three times within ten minutes
				case <-ctx.Done():
				}
				return errors.New("it has ended")
			}
		})
		w.await("it runs", time.Minute, w.state("a", operator.ItemRunning))
		time.Sleep(2 * time.Hour)
		if i := w.item("a"); i.State != operator.ItemRunning || i.Member != "n1" ||
			i.Restarts < 25 {
			t.Errorf("it is %+v", i)
		}
	})
}

func TestAFailingItemLoopsWhileTheLeaderHoldsBack(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		w.addWork("a")
		w.start("n1", limited(3), w.failing(&tries, func(string, string) bool { return true }))
		w.await("it is tried", time.Minute, func() bool { return tries.Load() > 0 })
		w.must(w.op.Freeze(w.t.Context()))
		time.Sleep(10 * time.Minute)
		if i := w.item("a"); i.State != operator.ItemLooping || tries.Load() < 50 {
			t.Errorf("frozen, it is %+v after %d tries", i, tries.Load())
		}
		// What an order has started anew is judged anew.
		w.must(w.op.Restart(w.t.Context(), "a"))
		w.must(w.op.Thaw(w.t.Context()))
		before := tries.Load()
		w.quarantined("a")
		if got := tries.Load() - before; got < 4 || got > 6 {
			t.Errorf("%d tries after the order", got)
		}
	})
}

// What has run well since for as long as failures count is neither looping nor taken away, should
// nobody have heard of the failures meanwhile.
func TestWorkThatHasRecoveredLongAgoIsNotTakenAway(t *testing.T) {
	for _, members := range []int{1, 2} {
		logged(t, func(w watched) {
			var tries atomic.Int64
			var mended atomic.Bool
			w.addWork("a", "b")
			for n := range members {
				w.start(fmt.Sprint("n", n), limited(3), w.failing(&tries, func(_, item string) bool {
					return item == "a" && !mended.Load()
				}))
			}
			w.await("it is tried", time.Minute, func() bool { return tries.Load() > 0 })
			w.must(w.op.Freeze(w.t.Context()))
			time.Sleep(5 * time.Minute)
			mended.Store(true)
			time.Sleep(5 * time.Minute)
			if i := w.item("a"); i.State != operator.ItemLooping {
				t.Errorf("five minutes later it is %v", i.State)
			}
			time.Sleep(6 * time.Minute)
			before := w.item("a")
			if before.State != operator.ItemRunning {
				t.Errorf("eleven minutes later it is %v", before.State)
			}
			started := w.startsOf("a")
			w.must(w.op.Thaw(w.t.Context()))
			time.Sleep(time.Minute)
			if i := w.item("a"); i.State != operator.ItemRunning || w.startsOf("a") != started ||
				w.noted("a") {
				t.Errorf("it ran well for eleven minutes, and is %+v now", i)
			}
		})
	}
}

func TestAPreferredMemberIsUsedWhenItIsThere(t *testing.T) {
	logged(t, func(w watched) {
		w.addWork(w.items(6)...)
		w.start("n1")
		w.start("n2")
		w.await("all run", time.Minute, w.balanced(6))
		wish, must := w.items(6)[0], w.items(6)[1]
		from := w.owners()[wish]
		to := map[string]string{"n1": "n2", "n2": "n1"}[from]
		w.must(w.op.Prefer(w.t.Context(), wish, to))
		there := func() bool { return w.owners()[wish] == to }
		w.await("it is where it is preferred", time.Minute, there)
		if i := w.item(wish); i.Preferred != to || i.Reason != "preferred" {
			w.t.Errorf("it is %+v", i)
		}
		// It goes elsewhere while the member is away, and comes back.
		w.stop(to)
		w.await("it runs elsewhere", time.Minute, func() bool { return w.owners()[wish] == from })
		w.start(to)
		w.await("it is back", time.Minute, there)
		w.must(w.op.Drain(w.t.Context(), to))
		w.await("it runs elsewhere", time.Minute, func() bool { return w.owners()[wish] == from })
		w.must(w.op.Undrain(w.t.Context(), to))
		w.await("it is back", time.Minute, there)
		// A full member has room for what must be there first.
		w.must(w.op.Pin(w.t.Context(), must, to))
		w.members[to].c.SetCapacity(1)
		w.await("what must be there is", time.Minute, func() bool {
			return w.owners()[must] == to && w.owners()[wish] == from && w.loads()[to] == 1
		})
		w.members[to].c.SetCapacity(0)
		w.await("it is back", time.Minute, there)
		w.await("all run evenly", time.Minute, w.balanced(6))
		last := w.last()
		time.Sleep(10 * time.Minute)
		if n := w.since(last); len(n) > 0 {
			w.t.Errorf("later there was %v", n)
		}
		// A pin replaces it.
		w.must(w.op.Pin(w.t.Context(), wish, from))
		w.await("it is pinned elsewhere", time.Minute, func() bool {
			return w.owners()[wish] == from && w.item(wish).Preferred == ""
		})
	})
}
