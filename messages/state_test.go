package messages_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/messages"
)

func TestPublishingNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := messages.NewState(0)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		for range 100 { // readers that take a value and then sit on it
			c := s.Subscribe()
			done.Go(func() {
				for {
					if _, err := c.Next(ctx); err != nil {
						return
					}
					<-ctx.Done()
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		for i := range 100_000 {
			s.Set(i)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("publishing waited %v", took)
		}
		if got := s.Get(); got != 99_999 {
			t.Errorf("the newest value is %d", got)
		}
		cancel()
		done.Wait()
	})
}

func TestARestartedSubscriberSeesTheCurrentValueFirst(t *testing.T) {
	s := messages.NewState("first")
	for _, want := range []string{"first", "second", "third"} {
		s.Set(want)
		got, err := s.Reader().Subscribe().Next(t.Context()) // as a new incarnation does
		if err != nil || got != want {
			t.Errorf("a new subscriber got %q, %v, want %q", got, err, want)
		}
	}
}

func TestASubscriberSeesNewerValuesOnlyAndEndsUpWithTheNewest(t *testing.T) {
	s := messages.NewState(0)
	c := s.Subscribe()
	var readers sync.WaitGroup
	readers.Go(func() {
		last := -1
		for last < 10_000 {
			v, err := c.Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if v <= last {
				t.Errorf("%d came after %d", v, last)
			}
			last = v
		}
	})
	for i := 1; i <= 10_000; i++ {
		s.Set(i)
	}
	readers.Wait()
}

func TestChangedIsClosedForAnUnseenValueOnly(t *testing.T) {
	s := messages.NewState(1)
	c := s.Subscribe()
	open := func() bool {
		select {
		case <-c.Changed():
			return false
		default:
			return true
		}
	}
	if open() {
		t.Error("the first value does not count as a change")
	}
	c.Take()
	if !open() {
		t.Error("a value that was taken counts as a change")
	}
	waiting := c.Changed()
	s.Set(2)
	<-waiting
	if open() || c.Take() != 2 || !open() {
		t.Error("the second value was not seen once")
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	s := messages.NewState(1)
	c := s.Subscribe()
	c.Take()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Reader().Wait(ctx, func(v int) bool {
		return v == 2
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentWritersLoseNoVersion(t *testing.T) {
	s := messages.NewState(0)
	c := s.Subscribe()
	c.Take()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for range 1000 {
				s.Set(w)
			}
		})
	}
	writers.Wait()
	if _, err := c.Next(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheZeroStateHoldsTheZeroValue(t *testing.T) {
	var s messages.State[int]
	cursor := s.Subscribe()
	if got, err := cursor.Next(t.Context()); got != 0 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	changed := cursor.Changed()
	s.Set(7)
	<-changed
	if got := cursor.Take(); got != 7 || s.Get() != 7 {
		t.Errorf("got %d", got)
	}
	var set messages.State[string]
	set.Set("first")
	if got := set.Get(); got != "first" {
		t.Errorf("got %q", got)
	}
}

func TestTheZeroMailboxCarriesRequests(t *testing.T) {
	var m messages.Mailbox[int, int]
	go func() { (<-m.Open().Requests()).Reply(7, nil) }()
	if got, err := m.Call(t.Context(), 1); got != 7 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}
