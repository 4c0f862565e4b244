package actors_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// seenPayloads notes the payloads that the work of a cluster has been called with, or been sent.
type seenPayloads struct {
	mu    sync.Mutex
	of    map[string][]string
	token map[string][]uint64
}

func (s *seenPayloads) see(item actors.Item, payload []byte, how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[item.ID] = append(s.of[item.ID], how+string(payload))
	if tokens := s.token[item.ID]; !slices.Contains(tokens, item.Token) {
		s.token[item.ID] = append(tokens, item.Token)
	}
}

func (s *seenPayloads) get(item string) ([]string, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.of[item]), len(s.token[item])
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
			seen := &seenPayloads{of: map[string][]string{}, token: map[string][]uint64{}}
			op, ctx := c.operator(), c.t.Context()
			c.must(op.AddWork(ctx, actors.WorkInput{ID: "a", Payload: []byte("one")},
				actors.WorkInput{ID: "b", Payload: []byte("one")}))
			seen.on(c, "n1", name)
			seen.on(c, "n2", name)
			c.await("they run", 20*time.Second, c.balanced(2))
			owners := c.owners()
			change := func(payload string, weight uint64) {
				c.t.Helper()
				c.must(op.AddWork(ctx, actors.WorkInput{ID: "a", Payload: []byte(payload),
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
			c.must(c.store.Put(ctx, c.store.Keys().Leader(), []byte("a stranger's"), 0))
			time.Sleep(time.Minute)
			got, tokens := seen.get("a")
			if !slices.Equal(got, want) || tokens != 1 || !maps.Equal(c.owners(), owners) {
				c.t.Errorf("%d: %q with %d tokens; want %q", name, got, tokens, want)
			}
			if got, _ := seen.get("b"); len(got) != 1 {
				c.t.Errorf("%d: the other one was told %q", name, got)
			}
			changed := 0
			events, err := op.Events(ctx)
			c.must(err)
			for _, e := range events {
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

// A change that comes while its item is restarted by an order, or moves, or whose owner is just
// starting it, is in what the work is called with: it is neither lost nor told twice.
func TestAChangeBesideARestartOrAMoveIsNeitherLostNorToldTwice(t *testing.T) {
	for _, on := range []actors.OnChange{actors.RestartOnChange, actors.SendOnChange} {
		run(t, func(c *cluster) {
			seen := &seenPayloads{of: map[string][]string{}, token: map[string][]uint64{}}
			op, ctx := c.operator(), c.t.Context()
			c.addWork(c.items(20)...)
			c.must(op.AddWork(ctx, actors.WorkInput{ID: "a", Payload: []byte("0")}))
			seen.on(c, "n1", on)
			seen.on(c, "n2", on)
			c.await("they run", 20*time.Second, c.balanced(21))
			last := ""
			for i := range 40 {
				last = string(rune('A' + i))
				c.must(op.AddWork(ctx, actors.WorkInput{ID: "a", Payload: []byte(last)}))
				time.Sleep(time.Duration(i%7) * 100 * time.Millisecond)
				switch i % 4 {
				case 0:
					c.must(op.Restart(ctx, "a"))
				case 1:
					if at := c.owners()["a"]; at != "" { // else it is on its way
						c.must(op.Drain(ctx, at))
					}
				case 2:
					c.must(op.Undrain(ctx, "n1"))
					c.must(op.Undrain(ctx, "n2"))
				}
				time.Sleep(time.Duration(i%5) * 300 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			got, _ := seen.get("a")
			if now := got[len(got)-1]; now != "called with "+last && now != "sent "+last {
				c.t.Errorf("%d: the work knows of %q; want %q", on, now, last)
			}
			called := map[string]int{}
			for _, how := range got {
				if called[how]++; on == actors.SendOnChange && how[0] == 's' && called[how] > 1 {
					c.t.Errorf("%q twice", how)
				}
			}
		})
	}
}

// Work that fails while Consul does not answer is called with what it knew: its payload may have
// been sent to it since it was called, and nobody tells of that once more.
func TestWorkThatFailsWithoutConsulKnowsWhatItWasSent(t *testing.T) {
	for _, on := range []actors.OnChange{actors.RestartOnChange, actors.SendOnChange} {
		run(t, func(c *cluster) {
			seen := &seenPayloads{of: map[string][]string{}, token: map[string][]uint64{}}
			op, ctx := c.operator(), c.t.Context()
			c.must(op.AddWork(ctx, actors.WorkInput{ID: "a", Payload: []byte("one")}))
			fail := make(chan struct{})
			seen.on(c, "n1", on, func(cfg *actors.Config) {
				work := cfg.Work
				cfg.Work = func(ctx context.Context, item actors.Item) error {
					own, cancel := context.WithCancel(ctx)
					go func() {
						defer cancel()
						select {
						case <-fail:
						case <-ctx.Done():
						}
					}()
					return work(own, item)
				}
			})
			c.await("it runs", 20*time.Second, c.balanced(1))
			c.must(op.AddWork(ctx, actors.WorkInput{ID: "a", Payload: []byte("two")}))
			time.Sleep(10 * time.Second)
			c.members["n1"].net.Cut(errors.New("no way to Consul"))
			fail <- struct{}{}
			time.Sleep(2 * time.Second)
			c.members["n1"].net.Cut(nil)
			time.Sleep(time.Minute)
			got, tokens := seen.get("a")
			if now := got[len(got)-1]; now != "called with two" || tokens != 1 {
				c.t.Errorf("%d: %q; the last payload is two", on, got)
			}
		})
	}
}

// What changes no place is no reason to put balance off: it may change all the time.
func TestAJoinerGetsItsShareWhilePayloadsAndOrdersToRestartCome(t *testing.T) {
	for what, change := range map[string]func(op *actors.Operator, ctx context.Context, n int) error{
		"payloads": func(op *actors.Operator, ctx context.Context, n int) error {
			return op.AddWork(ctx, actors.WorkInput{ID: "a", Payload: fmt.Append(nil, n)})
		},
		"orders to restart": func(op *actors.Operator, ctx context.Context, _ int) error {
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
