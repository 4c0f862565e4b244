package onzk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// What an order waits for may never come. It ends with its connection, whatever its context.
func TestAnOrderEndsWithItsConnection(t *testing.T) {
	type order = func(context.Context, *election.Election) error
	remove := func(ctx context.Context, e *election.Election) error { return e.Delete(ctx) }
	end := func(ctx context.Context, e *election.Election) error { return e.End(ctx) }
	for name, c := range map[string]struct {
		order order
		// cut is when ZooKeeper stops to answer; 0: never.
		cut time.Duration
		// lost: the leader's session has ended.
		lost bool
	}{
		"a deletion waits for the leader":          {order: remove},
		"a deletion waits for a lock-delay":        {order: remove, lost: true},
		"a deletion waits for ZooKeeper":           {order: remove, cut: time.Millisecond},
		"a deletion waits for a leader, unwatched": {order: remove, cut: 3 * time.Second},
		"an end waits for ZooKeeper":               {order: end, cut: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				one := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial,
					LockDelay: onzk.MaxLockDelay})
				defer one.Close()
				e := s.nominate(one, "n1")
				becomes(t, e, election.Leading)
				if c.lost {
					session, _ := one.Credentials()
					s.zoo.End(session)
					<-e.Done()
				}
				way := s.zoo.Way(devzookeeper.Weather{})
				two := s.connect(onzk.Config{Dial: way.Dial})
				x, err := election.New(two, election.Config{Election: "demo", Logger: s.log})
				must(t, err)
				time.Sleep(time.Second)
				if c.cut == time.Millisecond {
					way.Sever()
				} else if c.cut > 0 {
					time.AfterFunc(c.cut, way.Sever)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				over := make(chan error, 1)
				go func() { over <- c.order(ctx, x) }()
				time.Sleep(5 * time.Second)
				select {
				case err := <-over:
					t.Errorf("the order has ended already: %v", err)
					over <- err
				default:
				}
				begin := time.Now()
				two.Close()
				select {
				case err := <-over:
					if !errors.Is(err, election.ErrClosed) {
						t.Errorf("the order has ended with %v", err)
					}
				case <-time.After(time.Hour):
					t.Errorf("%v after Close the order waits", time.Since(begin))
				}
				cancel()
				way.Mend(true)
				e.Resign()
				<-e.Done()
			})
		})
	}
}
