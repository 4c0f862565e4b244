package actors_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/store"
)

// startsBy counts the starts of each item so far.
func (c *cluster) startsBy() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.starts)
}

func TestARestartStartsTheWorkOnceMoreAtTheSameMember(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		ctx := c.t.Context()
		const item = "device_group_0003"
		c.addWork(c.items(12)...)
		for _, id := range []string{"n1", "n2", "n3"} {
			c.start(id)
		}
		c.await("12 items run", 20*time.Second, c.balanced(12))
		owners, starts := c.owners(), c.startsBy()
		restarted := func(ids ...string) {
			c.t.Helper()
			for _, id := range ids {
				starts[id]++
			}
			c.await("the work has started once more", 20*time.Second, func() bool {
				return maps.Equal(c.startsBy(), starts) && maps.Equal(c.owners(), owners)
			})
			time.Sleep(time.Minute)
			if got := c.startsBy(); !maps.Equal(got, starts) {
				c.t.Fatalf("starts are %v; want %v", got, starts)
			}
		}
		c.must(op.Restart(ctx, item))
		restarted(item)
		c.must(op.Restart(ctx, item))
		restarted(item)
		var of []string
		for id, at := range owners {
			if at == "n2" {
				of = append(of, id)
			}
		}
		c.must(op.RestartMember(ctx, "n2"))
		restarted(of...)

		// Neither a new leader nor its new epoch carries an order out again.
		leader := c.leader()
		c.must(c.store.Put(ctx, c.store.Keys().Leader(), []byte("a stranger's"), 0))
		time.Sleep(30 * time.Second)
		restarted()
		c.must(op.Drain(ctx, leader))
		c.await("it is drained", time.Minute, func() bool { return c.loads()[leader] == 0 })
		c.must(op.Undrain(ctx, leader))
		c.await("it has its share", time.Minute, c.balanced(12))
		owners, starts = c.owners(), c.startsBy()
		restarted()

		// One that is given while nothing moves is carried out afterwards.
		c.must(op.Freeze(ctx))
		time.Sleep(5 * time.Second)
		c.must(op.Restart(ctx, item))
		restarted()
		c.must(op.Thaw(ctx))
		restarted(item)
	})
}

func TestARestartIsNotRepeatedWhenAnItemIsCalledBack(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		ctx := c.t.Context()
		c.addWork("a")
		c.start("n1")
		c.start("n2")
		c.await("it runs", 20*time.Second, c.balanced(1))
		at := c.owners()["a"]
		c.must(op.Restart(ctx, "a"))
		c.await("it has started again", 20*time.Second, func() bool {
			return c.startsOf("a") == 2
		})
		for range 5 { // asked for, and mostly called back
			c.must(op.Drain(ctx, at))
			c.must(op.Undrain(ctx, at))
			time.Sleep(10 * time.Second)
		}
		n := c.startsOf("a")
		if n > 7 {
			c.t.Errorf("%d starts", n)
		}
		c.must(op.Restart(ctx, "a"))
		time.Sleep(time.Minute)
		if got := c.startsOf("a"); got != n+1 {
			c.t.Errorf("%d starts, then %d", n, got)
		}
	})
}

// While a member that has stopped is waited for nothing is moved for balance, for as long as it has
// asked for: a restart does not wait for such moves.
func TestARestartDoesNotWaitForMovesThatArePutOff(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		items := c.items(12)
		c.addWork(items...)
		c.start("n1")
		c.start("n2", keeping(24*time.Hour))
		c.await("12 items run", 20*time.Second, c.balanced(12))
		c.stop("n2")
		c.start("n3")
		time.Sleep(20 * time.Second)
		if n := c.loads()["n1"]; n != 6 {
			c.t.Fatalf("n1 has %d items", n)
		}
		if err := op.RestartMember(c.t.Context(), "n1"); err != nil {
			c.t.Fatal(err)
		}
		c.await("6 items have started once more", 10*time.Second, func() bool {
			return c.totalStarts() == 18
		})
	})
}

// A leader of this version, after one of a later version, keeps what that one has written of an
// item and this one does not know: it asks for the item, calls it back and has it restarted.
func TestALeaderKeepsWhatALaterVersionHasWrittenOfAnItem(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		ctx := c.t.Context()
		slow := func(cfg *actors.Config) {
			work := cfg.Work
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				err := work(ctx, item)
				time.Sleep(2 * time.Second)
				return err
			}
		}
		c.addWork("a")
		c.start("n1", slow)
		c.start("n2", slow)
		c.await("it runs", 20*time.Second, c.balanced(1))
		at := c.owners()["a"]
		key := c.store.Keys().Assignment(at, "a")
		value := func() string {
			e, _, _, err := c.store.Get(ctx, key, store.Consistent)
			if err != nil {
				c.t.Fatal(err)
			}
			return string(e.Value)
		}
		const later = `"later":{"than":[1,"this"]}`
		if err := c.store.Put(ctx, key, []byte(strings.Replace(value(), "}", ","+later+"}", 1)),
			0); err != nil {
			c.t.Fatal(err)
		}
		for _, step := range []struct {
			do   func() error
			wait time.Duration
			now  string
		}{
			{func() error { return op.Restart(ctx, "a") }, 10 * time.Second, `"again":`},
			{func() error { return op.Drain(ctx, at) }, time.Second, `"s":"rel"`},
			{func() error { return op.Undrain(ctx, at) }, 500 * time.Millisecond, `"cancelled"`},
		} {
			if err := step.do(); err != nil {
				c.t.Fatal(err)
			}
			time.Sleep(step.wait)
			got := value()
			if !strings.Contains(got, step.now) || !strings.Contains(got, later) {
				c.t.Errorf("it is %s; want %s and %s in it", got, step.now, later)
			}
		}
	})
}
