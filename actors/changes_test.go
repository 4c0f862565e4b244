package actors_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// seenPayloads notes the payloads that the work of a cluster has been called with, or been sent.
type seenPayloads struct {
	mu    sync.Mutex
	of    map[string][]string
	grant map[string][]uint64
}

func (s *seenPayloads) see(item actors.Item, payload []byte, how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[item.ID] = append(s.of[item.ID], how+string(payload))
	if grants := s.grant[item.ID]; !slices.Contains(grants, item.Grant) {
		s.grant[item.ID] = append(grants, item.Grant)
	}
}

func (s *seenPayloads) get(item string) ([]string, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.of[item]), len(s.grant[item])
}

// on is a member whose work notes its payloads, with a setting for when they change.
func (s *seenPayloads) on(c *cluster, id string, on actors.OnChange, options ...option) {
	c.start(id, append(options, func(cfg *actors.Config) {
		cfg.OnChange = on
		work := cfg.Work
		cfg.Work = func(ctx context.Context, item actors.Item) error {
			s.see(item, item.Payload, "called with ")
			done := make(chan error)
			go func() { done <- work(ctx, item) }()
			for {
				select {
				case err := <-done:
					return err
				case p := <-item.Changes:
					s.see(item, p, "sent ")
				}
			}
		}
	})...)
}

func TestAChangedPayloadReachesRunningWorkAsItsHostHasChosen(t *testing.T) {
	for name, want := range map[actors.OnChange][]string{
		actors.KeepOnChange:    {"called with one"},
		actors.RestartOnChange: {"called with one", "called with two", "called with three"},
		actors.SendOnChange:    {"called with one", "sent two", "sent three"},
	} {
		run(t, func(c *cluster) {
			seen := &seenPayloads{of: map[string][]string{}, grant: map[string][]uint64{}}
			op, ctx := c.operator(), c.t.Context()
			c.must(op.AddWork(ctx, operator.WorkInput{ID: "a", Payload: []byte("one")},
				operator.WorkInput{ID: "b", Payload: []byte("one")}))
			seen.on(c, "n1", name)
			seen.on(c, "n2", name)
			c.await("they run", 20*time.Second, c.balanced(2))
			owners := c.owners()
			change := func(payload string, weight uint64) {
				c.t.Helper()
				c.must(op.AddWork(ctx, operator.WorkInput{ID: "a", Payload: []byte(payload),
					Weight: weight}))
				time.Sleep(5 * time.Second)
			}
			change("two", 1)
			change("two", 1) // the same once more
			change("two", 2) // its weight alone
			c.must(op.Freeze(ctx))
			time.Sleep(5 * time.Second)
			before, _ := seen.get("a")
			change("three", 1)
			if now, _ := seen.get("a"); !slices.Equal(before, now) {
				c.t.Errorf("%d: frozen, and %q", name, now)
			}
			c.must(op.Thaw(ctx))
			time.Sleep(10 * time.Second)
			// Neither a new epoch nor a new leader tells of it again.
			c.must(keys.Put(ctx, c.store, c.store.Keys().Leader(), []byte("a stranger's"), 0))
			time.Sleep(time.Minute)
			got, grants := seen.get("a")
			if !slices.Equal(got, want) || grants != 1 || !maps.Equal(c.owners(), owners) {
				c.t.Errorf("%d: %q with %d grants; want %q", name, got, grants, want)
			}
			if got, _ := seen.get("b"); len(got) != 1 {
				c.t.Errorf("%d: the other one was told %q", name, got)
			}
			changed := 0
			log, err := op.EventLog(ctx)
			c.must(err)
			for _, e := range log.All() {
				if e.Kind == "changed" {
					changed++
				}
			}
			if told := name != actors.KeepOnChange; told != (changed > 0) {
				c.t.Errorf("%d: the event log tells of %d changes", name, changed)
			}
		})
	}
}

// What changes no place is no reason to put balance off: it may change all the time.
func TestAJoinerGetsItsShareWhilePayloadsAndOrdersToRestartCome(t *testing.T) {
	for what, change := range map[string]func(op *operator.Client, ctx context.Context,
		n int) error{
		"payloads": func(op *operator.Client, ctx context.Context, n int) error {
			return op.AddWork(ctx, operator.WorkInput{ID: "a", Payload: fmt.Append(nil, n)})
		},
		"orders to restart": func(op *operator.Client, ctx context.Context, _ int) error {
			return op.Restart(ctx, "a")
		},
	} {
		run(t, func(c *cluster) {
			op, ctx := c.operator(), c.t.Context()
			c.addWork(append(c.items(20), "a")...)
			c.start("n1")
			c.start("n2")
			c.await("they run", 20*time.Second, c.balanced(21))
			for n := range 20 {
				if n == 5 {
					c.start("n3")
				}
				c.must(change(op, ctx, n))
				time.Sleep(2 * time.Second)
			}
			if !c.balanced(21)() {
				c.t.Errorf("%s come, and the joiner has %v", what, c.loads())
			}
		})
	}
}

// An operator mends the payload of an item whose work fails.
func TestWorkThatIsCalledAgainGetsThePayloadOfNow(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		must := func(payload string, weight uint64) {
			t.Helper()
			if err := op.AddWork(c.t.Context(), operator.WorkInput{ID: "w",
				Payload: []byte(payload), Weight: weight}); err != nil {
				t.Fatal(err)
			}
		}
		must("broken", 1)
		var last atomic.Value
		c.start("n1", func(cfg *actors.Config) {
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				last.Store(fmt.Sprintf("%s %d", item.Payload, item.Weight))
				if string(item.Payload) == "broken" {
					return errors.New("the payload is broken")
				}
				<-ctx.Done()
				return nil
			}
		})
		c.await("a call", 10*time.Second, func() bool { return last.Load() != nil })
		time.Sleep(time.Minute)
		must("mended", 2)
		c.await("the payload of now", time.Minute, func() bool {
			return last.Load() == "mended 2"
		})
	})
}
