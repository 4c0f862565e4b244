package actors_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
)

// interrupted is how work has ended that was ended, as a command is whose guard process died.
type interrupted struct{}

func (interrupted) Error() string     { return "the guard process died" }
func (interrupted) Interrupted() bool { return true }

// What ends all work of a host is no failure of any item.
func TestWorkThatWasInterruptedHasNotFailed(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		w.addWork(w.items(3)...)
		w.start("n1", limited(1), func(cfg *actors.Config) {
			work := cfg.Work
			cfg.Work = func(ctx context.Context, x actors.Item) error {
				if tries.Add(1) <= 12 {
					return fmt.Errorf("command %q: %w", x.ID, interrupted{})
				}
				return work(ctx, x)
			}
		})
		w.await("all have been interrupted, and run", time.Minute, func() bool {
			return tries.Load() == 15
		})
		synctest.Wait()
		time.Sleep(time.Minute)
		for _, id := range w.items(3) {
			if i := w.item(id); i.State != actors.ItemRunning || w.noted(id) {
				t.Errorf("%s is %v, and noted %v", id, i.State, w.noted(id))
			}
		}
	})
}

// hostFault is the end of work of which nothing is wrong but its host.
type hostFault struct{}

func (hostFault) Error() string   { return "too many open files" }
func (hostFault) HostFault() bool { return true }

// exhausted are hosts that have nothing left to start work with.
func (w watched) exhausted(hosts *sync.Map) option {
	return func(cfg *actors.Config) {
		work, id := cfg.Work, cfg.ID
		cfg.Work = func(ctx context.Context, x actors.Item) error {
			if _, yes := hosts.Load(id); yes {
				return fmt.Errorf("not started: %w", hostFault{})
			}
			return work(ctx, x)
		}
	}
}

// A host that has nothing left to start work with is no fault of the items': they run elsewhere
// where that is possible, and there once it has something again. None of them is quarantined.
func TestWhatAHostCannotStartIsNotQuarantined(t *testing.T) {
	for _, members := range []int{1, 2} {
		t.Run(fmt.Sprint(members, " hosts"), func(t *testing.T) {
			logged(t, func(w watched) {
				var hosts sync.Map
				items := w.items(4)
				w.addWork(items...)
				ids := []string{"n1", "n2"}[:members]
				for _, id := range ids {
					hosts.Store(id, true)
					w.start(id, limited(2), w.exhausted(&hosts))
				}
				time.Sleep(10 * time.Minute)
				for _, id := range items {
					if i := w.item(id); i.State == actors.ItemQuarantined {
						t.Fatalf("it is %+v", i)
					}
				}
				hosts.Delete("n1")
				w.await("all run", time.Minute, func() bool { return w.loads()["n1"] >= 2 })
				for _, id := range ids {
					hosts.Delete(id)
				}
				w.await("all run", time.Minute, w.runs(items))
				// What has passed is no reason to move anything later.
				time.Sleep(time.Minute)
				starts := w.totalStarts()
				w.start("n3", limited(2))
				time.Sleep(time.Minute)
				if moved := w.totalStarts() - starts; moved > 2 {
					t.Errorf("%d items were moved to a third member", moved)
				}
			})
		})
	}
}

func TestWhatAHostCannotStartRunsElsewhere(t *testing.T) {
	logged(t, func(w watched) {
		var hosts sync.Map
		hosts.Store("n1", true)
		items := w.items(4)
		w.addWork(items...)
		for _, id := range []string{"n1", "n2"} {
			w.start(id, limited(2), w.exhausted(&hosts))
		}
		w.await("all run at n2", time.Minute, func() bool { return w.loads()["n2"] == 4 })
		// A host that had nothing left for a moment is a good one later.
		hosts.Delete("n1")
		time.Sleep(10 * time.Minute)
		w.await("n1 has its share", time.Minute, w.balanced(4))
	})
}

// What fails by itself after its host was to blame is quarantined as ever.
func TestWorkThatFailsAfterItsHostDidIsQuarantined(t *testing.T) {
	logged(t, func(w watched) {
		var hosts sync.Map
		var tries atomic.Int64
		hosts.Store("n1", true)
		items := w.items(2)
		w.addWork(items...)
		sick := func(_, item string) bool { return item == items[0] }
		w.start("n1", limited(2), w.failing(&tries, sick), w.exhausted(&hosts))
		time.Sleep(time.Minute)
		if n := tries.Load(); n != 0 {
			t.Errorf("it was tried %d times", n)
		}
		hosts.Delete("n1")
		w.quarantined(items[0])
		w.await("the other runs", time.Minute, w.runs(items[1:]))
	})
}

// What a host was to blame for hours ago is no reason to take work away that something else ends.
func TestWorkThatIsInterruptedLongAfterItsHostWasToBlameStays(t *testing.T) {
	logged(t, func(w watched) {
		var hosts sync.Map
		guard, dies := context.WithCancel(w.t.Context())
		hosts.Store("n1", true)
		w.addWork(w.items(4)...)
		w.start("n1", limited(2), func(cfg *actors.Config) {
			work := cfg.Work
			cfg.Work = func(ctx context.Context, x actors.Item) error {
				if guard.Err() != nil { // there is another one
					return work(ctx, x)
				}
				until, end := context.WithCancel(ctx)
				defer context.AfterFunc(guard, end)()
				if err := work(until, x); ctx.Err() != nil {
					return err
				}
				return fmt.Errorf("command %q: %w", x.ID, interrupted{})
			}
		}, w.exhausted(&hosts))
		time.Sleep(time.Minute)
		hosts.Delete("n1")
		w.await("all run", time.Minute, w.runs(w.items(4)))
		time.Sleep(time.Minute)
		w.start("n2", limited(2))
		w.await("each has its share", time.Minute, w.balanced(4))
		time.Sleep(3 * time.Hour)
		last := w.last()
		dies()
		time.Sleep(time.Minute)
		if n := w.since(last); len(n) > 0 {
			t.Errorf("since the guard died there was %v", n)
		}
	})
}

// Each host that was to blame is asked again after ten minutes. Failures elsewhere, which count for
// longer, do not delay that.
func TestWhatAHostCannotStartIsTriedAgainWhereAnotherWasToBlameBefore(t *testing.T) {
	logged(t, func(w watched) {
		var hosts sync.Map
		var tries atomic.Int64
		sick := func(member, _ string) bool { return member == "n2" }
		w.addWork("a")
		hosts.Store("n1", true)
		hosts.Store("n3", true)
		for _, id := range []string{"n1", "n2", "n3"} {
			w.start(id, limited(2), w.failing(&tries, sick), w.exhausted(&hosts))
			w.await("it is there", 2*time.Minute, func() bool { return w.item("a").Member == id })
		}
		hosts.Delete("n1")
		w.await("it runs at n1", 11*time.Minute, func() bool { return w.loads()["n1"] == 1 })
	})
}
