package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// A sick host is not a sick item, also where it was the first of its cluster: what failed there,
// and had nowhere else to go, is tried at the member that comes. What fails there too is sick.
func TestWhatHadNowhereElseToGoIsTriedAtTheMemberThatComes(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		broken := w.failing(&tries, func(member, item string) bool {
			return member == "n1" || item == "bad"
		})
		items := w.items(9)
		w.addWork(append(items, "bad")...)
		w.start("n1", limited(2), broken)
		for _, id := range append(items, "bad") {
			w.quarantined(id)
		}
		w.stop("n1")
		w.start("n1", limited(2), broken) // anew: it is no other member
		time.Sleep(time.Minute)
		if i := w.item(items[0]); i.State != actors.ItemQuarantined {
			t.Fatalf("once n1 was started anew it is %+v", i)
		}
		w.start("n2", limited(2), broken)
		w.await("nine run at n2", time.Minute, func() bool { return w.loads()["n2"] == 9 })
		w.await("one is shown so", time.Minute, w.state(items[0], actors.ItemRunning))
		if i := w.item(items[0]); !slices.Equal(i.FailedAt, []string{"n1"}) {
			t.Errorf("one that runs is %+v", i)
		}
		if i := w.quarantined("bad"); !slices.Equal(i.FailedAt, []string{"n1", "n2"}) {
			t.Errorf("what fails at both is %+v", i)
		}
		w.start("n3", limited(2), broken)
		time.Sleep(5 * time.Minute)
		if i := w.item("bad"); i.State != actors.ItemQuarantined {
			t.Errorf("when a third member has come it is %+v", i)
		}
		if got := w.since(0)["unquarantined elsewhere"]; got != 10 {
			t.Errorf("the events are %v", w.since(0))
		}
	})
}

// Also where nothing tells of it: the item weighs less now, and a member that was full takes it.
func TestWhatHadNowhereElseToGoIsTriedWhenItWeighsLess(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		broken := w.failing(&tries, func(member, _ string) bool { return member == "n1" })
		w.must(w.op.AddWork(w.t.Context(), actors.WorkInput{ID: "a", Weight: 2}))
		w.start("n1", limited(2), broken)
		w.start("n2", limited(2), broken, func(cfg *actors.Config) { cfg.Capacity = 1 })
		w.quarantined("a")
		time.Sleep(time.Minute)
		w.must(w.op.AddWork(w.t.Context(), actors.WorkInput{ID: "a", Weight: 1}))
		w.await("it runs at n2", time.Minute, func() bool { return w.loads()["n2"] == 1 })
	})
}

// A host that had nothing left to start work with takes it again ten minutes later: that is another
// member than the only one at which the work itself has failed.
func TestWhatHadNowhereElseToGoIsTriedWhereTheHostWasToBlame(t *testing.T) {
	logged(t, func(w watched) {
		var hosts sync.Map
		hosts.Store("n2", true)
		broken := func(cfg *actors.Config) {
			work, id := cfg.Work, cfg.ID
			cfg.Work = func(ctx context.Context, x actors.Item) error {
				if _, yes := hosts.Load(id); yes {
					return fmt.Errorf("not started: %w", hostFault{})
				}
				if id == "n1" {
					return errors.New("exit status 3")
				}
				return work(ctx, x)
			}
		}
		w.addWork("a")
		w.start("n2", limited(2), broken)
		w.await("n2 has it", time.Minute, func() bool { return w.item("a").Member == "n2" })
		w.start("n1", limited(2), broken)
		w.quarantined("a")
		hosts.Clear()
		w.await("it runs at n2", 11*time.Minute, func() bool { return w.loads()["n2"] == 1 })
	})
}

// Nor is a pin for good: what failed where it was pinned to is tried at another member when it is
// pinned there, or to none.
func TestWhatFailedWhereItWasPinnedIsTriedWhereItIsPinnedThen(t *testing.T) {
	for _, then := range []func(w watched) error{
		func(w watched) error { return w.op.Pin(w.t.Context(), "a", "n2") },
		func(w watched) error { return w.op.Unpin(w.t.Context(), "a") },
	} {
		logged(t, func(w watched) {
			var tries atomic.Int64
			broken := w.failing(&tries, func(member, _ string) bool { return member == "n1" })
			w.must(w.op.Pin(w.t.Context(), "a", "n1"))
			w.addWork("a")
			w.start("n1", limited(2), broken)
			w.start("n2", limited(2), broken)
			w.quarantined("a")
			time.Sleep(time.Minute)
			w.must(then(w))
			w.await("it runs at n2", time.Minute, func() bool { return w.loads()["n2"] == 1 })
		})
	}
}
