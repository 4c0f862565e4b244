package actors_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/protocol"
)

// summary reads what a member says of its items' work.
func (c *cluster) summary(id string) (s protocol.WorkSummary, found bool) {
	c.t.Helper()
	for _, e := range c.consul.Dump().Entries {
		if e.Key != c.store.Keys().State(id) {
			continue
		}
		s, err := protocol.ParseWorkSummary(e.Value)
		if err != nil {
			c.t.Fatalf("the summary of %s: %v", id, err)
		}
		return s, true
	}
	return protocol.WorkSummary{}, false
}

// crashing makes the work of one item end at once for as long as broken says so.
func crashing(item string, broken func() bool) option {
	return func(cfg *actors.Config) {
		work := cfg.Work
		cfg.Work = func(ctx context.Context, x actors.Item) error {
			if x.ID == item && broken() {
				return errors.New("exit status 3\nand more")
			}
			return work(ctx, x)
		}
	}
}

// counted waits until the member's summary has so many items in a state.
func (c *cluster) counted(id, state string, n int) func() bool {
	return func() bool {
		s, _ := c.summary(id)
		return s.Counts[state] == n
	}
}

func TestAMemberSaysThatItsWorkLoops(t *testing.T) {
	run(t, func(c *cluster) {
		var mended atomic.Bool
		items := c.items(3)
		c.addWork(items...)
		c.start("n1", crashing(items[1], func() bool { return !mended.Load() }))
		c.await("the loop", 20*time.Second, c.counted("n1", protocol.WorkLooping, 1))
		s, _ := c.summary("n1")
		if len(s.Items) != 1 || s.Items[0].ID != items[1] || s.Items[0].Restarts < 3 ||
			s.Items[0].Exit != "exit status 3 and more" || s.Items[0].Grant == 0 ||
			s.Counts[protocol.WorkRunning] != 2 {
			t.Errorf("the summary says %+v", s)
		}
		// Its pauses go on, and cost no more writes than statesEvery allows.
		time.Sleep(time.Minute)
		first, _ := c.summary("n1")
		time.Sleep(5 * time.Minute)
		last, _ := c.summary("n1")
		if n := last.Seq - first.Seq; n < 10 || n > 61 {
			t.Errorf("%d writes in 5 min of a loop, want one for each run", n)
		}
		if last.Items[0].Restarts <= first.Items[0].Restarts {
			t.Errorf("restarts stay at %d", last.Items[0].Restarts)
		}
		mended.Store(true)
		c.await("the end of the loop", time.Minute, c.counted("n1", protocol.WorkRunning, 3))
		if s, _ := c.summary("n1"); len(s.Items) != 1 || s.Items[0].State != protocol.WorkRunning {
			t.Errorf("it has been restarted, and the summary says %+v", s)
		}
	})
}

func TestASummarySaysHowWorkEnded(t *testing.T) {
	run(t, func(c *cluster) {
		ends := map[string]func() error{
			"it returned":               func() error { return nil },
			"exit status 3":             func() error { return errors.New("exit status 3") },
			"it panicked: no such row":  func() error { panic("no such row") },
			"it called runtime.Goexit":  func() error { runtime.Goexit(); return nil },
			"it panicked: disk is full": func() error { panic(errors.New("disk is full")) },
		}
		items := c.items(len(ends))
		c.addWork(items...)
		says := slices.Sorted(maps.Keys(ends))
		c.start("n1", func(cfg *actors.Config) {
			cfg.Work = func(_ context.Context, x actors.Item) error {
				return ends[says[slices.Index(items, x.ID)]]()
			}
		})
		c.await("all loop", time.Minute, c.counted("n1", protocol.WorkLooping, len(items)))
		s, _ := c.summary("n1")
		for _, i := range s.Items {
			if want := says[slices.Index(items, i.ID)]; i.Exit != want {
				t.Errorf("the end %q is called %q", want, i.Exit)
			}
		}
	})
}

func TestASummaryCostsOneWriteForAChangeAndNothingWhileIdle(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(40)...)
		c.start("n1")
		c.await("all items", 20*time.Second, c.counted("n1", protocol.WorkRunning, 40))
		first, _ := c.summary("n1")
		if first.Seq > 3 {
			t.Errorf("%d writes until 40 items run, want 3 at the most", first.Seq)
		}
		t.Logf("%d writes until 40 items run", first.Seq)
		time.Sleep(10 * time.Second)
		index := c.consul.Dump().Index
		time.Sleep(time.Hour)
		if now := c.consul.Dump().Index; now != index {
			t.Errorf("%d log entries in an hour of rest", now-index)
		}
		c.addWork("one_more")
		c.await("one more item", 20*time.Second, c.counted("n1", protocol.WorkRunning, 41))
		time.Sleep(10 * time.Second)
		if last, _ := c.summary("n1"); last.Seq != first.Seq+1 {
			t.Errorf("one more item took %d writes, want 1", last.Seq-first.Seq)
		}
	})
}

func TestASummaryGoesWithItsMember(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		for _, id := range []string{"n1", "n2", "n3"} {
			c.start(id)
		}
		c.await("summaries", 40*time.Second, func() bool {
			for _, id := range []string{"n1", "n2", "n3"} {
				if s, _ := c.summary(id); s.Counts[protocol.WorkRunning] == 0 {
					return false
				}
			}
			return true
		})
		c.stop("n1")
		if _, found := c.summary("n1"); found {
			t.Error("n1 has stopped, and its summary is there")
		}
		lost := c.follower()
		c.kill(lost)
		c.await("the sweep", time.Minute, func() bool {
			_, found := c.summary(lost)
			return !found
		})
	})
}
