package store_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// tally is an observer that counts calls, and the polls that are open.
type tally struct {
	mu    sync.Mutex
	ended map[string]int // "kind result"
	polls int
	took  time.Duration // of the last poll
}

func (c *tally) Observe(e facts.Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := e.(type) {
	case facts.PollOpened:
		c.polls++
	case facts.CallEnded:
		c.ended[e.Kind+" "+e.Result]++
		if e.Kind == facts.KindPoll {
			c.polls--
			c.took = e.Took
		}
	}
}

func (c *tally) want(t *testing.T, polls int, ended map[string]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.polls != polls || !maps.Equal(c.ended, ended) {
		t.Errorf("%d polls are open, want %d; calls that ended: %v, want %v", c.polls, polls,
			c.ended, ended)
	}
	clear(c.ended)
}

func TestTheObserverIsToldOfEveryCall(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
		o := &tally{ended: map[string]int{}}
		s, err := store.Open(store.Config{Client: consul.Client(), Observer: o})
		must(t, err)
		ctx := t.Context()
		must(t, keys.Put(ctx, s, "k", []byte("v"), 0))
		if _, _, _, err := s.Get(ctx, "k", store.Default); err != nil {
			t.Fatal(err)
		}
		_, _ = s.Txn(ctx, store.CheckIndex("k", 12345))
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, _, _ = s.List(over, "p/", store.Default)
		o.want(t, 0, map[string]int{"txn ok": 1, "get ok": 1, "read_txn refused": 1,
			"list canceled": 1})

		id, _, err := s.CreateSession(ctx, store.SessionOptions{TTL: 10 * time.Second})
		must(t, err)
		must(t, s.DestroySession(ctx, id))
		_, err = s.RenewSession(ctx, id, 0)
		if err == nil {
			t.Error("a session that is gone was renewed")
		}
		o.want(t, 0, map[string]int{"session_create ok": 1, "session_destroy ok": 1,
			"session_renew ok": 1, "session_info ok": 1})

		i := store.Instance{ID: "i", Service: "demo", CheckTTL: 10 * time.Second}
		must(t, s.RegisterInstance(ctx, i))
		must(t, s.ReportInstance(ctx, i, "fine", false))
		must(t, s.DeregisterInstance(ctx, i))
		o.want(t, 0, map[string]int{"register_instance ok": 1, "report_check ok": 1,
			"deregister_instance ok": 1})

		w := store.WatchKey(s, "k")
		next(t, w)
		o.want(t, 0, map[string]int{"get ok": 1})
		more, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { _, _ = w.Next(more) })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		o.want(t, 1, map[string]int{})
		stop()
		watching.Wait()
		o.want(t, 0, map[string]int{"poll canceled": 1})
		if o.took != 10*time.Second {
			t.Errorf("the poll took %v", o.took)
		}

		consul.ElectionStart()
		_, _, _, _ = s.Get(ctx, "k", store.Default)
		consul.ElectionEnd()
		o.want(t, 0, map[string]int{"get unreachable": 1})
	})
}
