package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestALostReplyIsFoundOutAndTheWriteIsDoneOnce(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.net.Next(1, s.net.Lose)
		index := s.put("k", "v")
		r.expect("written", r.times("k=v"), 1)
		e, err := s.Get(t.Context(), "k")
		if err != nil || e.Index != index || string(e.Value) != "v" {
			t.Errorf("%v, %v; put said %d", e, err, index)
		}
		s.net.Next(1, s.net.Lose)
		n := 0
		if _, err := s.Update(t.Context(), "count", func(configstore.Entry, bool) ([]byte, error) {
			n++
			return fmt.Append(nil, n), nil
		}); err != nil || n != 1 {
			t.Errorf("an update whose reply was lost was made %d times: %v", n, err)
		}
		s.net.Next(1, s.net.Lose)
		must(t, s.Delete(t.Context(), "k"))
		r.expect("k", s.get("k"), "-")
		r.expect("deleted", r.times("k-"), 1)
	})
}

func TestWritesAreAppliedInTheOrderInWhichTheyCame(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		for i := range 30 { // every third reply is lost, every fifth request late
			s.net.Next(i+1, map[bool]transport.Func{true: s.net.Lose}[i%3 == 0])
			if i%5 == 1 {
				s.net.Next(i+1, s.net.Late(20*time.Second))
			}
		}
		var order []string
		w := s.Watch("k")
		if _, err := w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg, puts sync.WaitGroup
		wg.Go(func() {
			for {
				c, err := w.Next(ctx)
				if err != nil {
					return
				}
				order = append(order, string(c[0].Value))
			}
		})
		for i := range 20 {
			puts.Go(func() { s.put("k", fmt.Sprintf("%02d", i)) })
			time.Sleep(time.Millisecond)
		}
		puts.Wait()
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		r.expect("the last value", r.raw("config_data/k"), "19")
		if !slices.IsSorted(order) || len(order) < 2 { // a watch shows the last of several changes
			t.Errorf("seen in the order %v", order)
		}
		for i := range 20 {
			r.expect(fmt.Sprintf("writes of %d", i), r.times(fmt.Sprintf("k=%02d", i)), 1)
		}
		time.Sleep(time.Minute)
		r.expect("later on", r.raw("config_data/k"), "19")
	})
}

func TestAPutThatHadToWaitDoesNotOverwriteWhatCameMeanwhile(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "1")
		s.put("free", "1")
		s.net.Cut(errors.New("cut off"))
		errs := make(chan error, 2)
		go func() { _, err := s.Put(t.Context(), "k", []byte("2")); errs <- err }()
		go func() { _, err := s.Put(t.Context(), "free", []byte("2")); errs <- err }()
		time.Sleep(time.Second)
		r.stranger("config_data/k", "theirs")
		time.Sleep(time.Second)
		s.net.Cut(nil)
		refused := 0
		for range 2 {
			if err := <-errs; errors.Is(err, configstore.ErrConflict) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		r.expect("refused", refused, 1)
		r.expect("k", r.raw("config_data/k"), "theirs")
		r.expect("free", r.raw("config_data/free"), "2")
		s.put("k", "3") // one that need not wait wins
		r.expect("k", r.raw("config_data/k"), "3")
	})
}

func TestAFullQueueSaysSoAndCallersWhoLeaveMakeRoom(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start(func(c *configstore.Config) { c.MaxPending = 3 }).ready()
		s.net.Cut(errors.New("cut off"))
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if _, err := s.Put(r.ctx(5*time.Second), fmt.Sprint("k", i), nil); !errors.Is(err,
					context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		if _, err := s.Put(t.Context(), "more", nil); !errors.Is(err, configstore.ErrFull) {
			t.Errorf("a fourth: %v", err)
		}
		wg.Wait()
		time.Sleep(time.Second)
		s.net.Cut(nil)
		s.put("more", "v")
		time.Sleep(time.Minute)
		for i := range 3 {
			r.expect(fmt.Sprint("k", i, ", which nobody waited for"),
				r.raw(fmt.Sprint("config_data/k", i)), "-")
		}
	})
}
