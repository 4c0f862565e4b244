package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

func TestASessionEndsWithTheCheckThatItIsBoundTo(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		ctx := t.Context()
		i := store.Instance{ID: "demo-n1", Service: "demo", CheckTTL: 6 * time.Second}
		bound := store.SessionOptions{TTL: store.DefaultTTL, Check: i.CheckID()}
		_, _, err := s.CreateSession(ctx, bound)
		wantKind(t, err, store.ErrUnreachable, false)
		wantText(t, err, "Missing check")
		wantKind(t, s.ReportInstance(ctx, i, "one", false), store.ErrNotFound, false)

		must(t, s.RegisterInstance(ctx, i))
		id, _, err := s.CreateSession(ctx, bound)
		must(t, err)
		for range 10 {
			time.Sleep(5 * time.Second)
			must(t, s.ReportInstance(ctx, i, "at work", false))
			_, err := s.RenewSession(ctx, id, 0)
			must(t, err)
		}
		must(t, s.RegisterInstance(ctx, i)) // anew: the check keeps its state
		time.Sleep(5900 * time.Millisecond)
		if _, alive, err := s.SessionInfo(ctx, id); err != nil || !alive {
			t.Errorf("before the check's ttl was over: %v, %v", alive, err)
		}
		time.Sleep(200 * time.Millisecond)
		if _, alive, err := s.SessionInfo(ctx, id); err != nil || alive {
			t.Errorf("after the check's ttl: %v, %v", alive, err)
		}
		_, _, err = s.CreateSession(ctx, bound)
		wantKind(t, err, store.ErrUnreachable, false)
		wantText(t, err, "critical")

		must(t, s.DeregisterInstance(ctx, i))
		must(t, s.DeregisterInstance(ctx, i)) // one that is gone is no error
		services, err := consul.Client().Agent().Services()
		if err != nil || len(services) > 0 {
			t.Errorf("the agent shows %v, %v", services, err)
		}
	})
}

// A process whose renewals hang is not reported as being there.
func TestNothingIsReportedWhileItsRenewalsAreStuck(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		var stuck atomic.Bool
		i := store.Instance{ID: "demo-n1", Service: "demo", CheckTTL: 6 * time.Second}
		k := store.CheckKeeper{Store: s, TTL: store.DefaultTTL, Log: (&lines{}).logger(),
			Instance: messages.NewState(i).Reader(), Out: messages.NewState(facts.Check{}),
			Says: func() string { return "" }, Stuck: stuck.Load}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { _ = k.Run(ctx) })
		time.Sleep(time.Minute)
		id, _, err := s.CreateSession(ctx, store.SessionOptions{TTL: time.Hour, Check: i.CheckID()})
		must(t, err)
		for _, wait := range []time.Duration{time.Minute, 7 * time.Second} {
			time.Sleep(wait)
			if _, alive, err := s.SessionInfo(ctx, id); err != nil || alive == stuck.Load() {
				t.Errorf("stuck %v, and its session is alive: %v, %v", stuck.Load(), alive, err)
			}
			stuck.Store(true)
		}
	})
}
