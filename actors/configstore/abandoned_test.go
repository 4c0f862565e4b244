package configstore_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAPutIsNoConflictWithAnEarlierOneWhoseCallerLeftBeforeItWasSent(t *testing.T) {
	for _, first := range []string{"other", "k"} {
		t.Run("behind "+first, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				s := r.start().ready()
				s.put("k", "1")
				s.net.Cut(errors.New("cut off"))
				errs := make(chan error, 2)
				put := func(key, value string) {
					_, err := s.Put(r.ctx(time.Minute), key, []byte(value))
					errs <- err
				}
				go put(first, "2")
				time.Sleep(100 * time.Millisecond)
				_, err := s.Put(r.ctx(time.Second), "k", []byte("left"))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the one whose caller leaves: %v", err)
				}
				go put("k", "3")
				time.Sleep(time.Second)
				s.net.Cut(nil)
				for range 2 {
					if err := <-errs; err != nil {
						t.Error(err)
					}
				}
				r.expect("k", r.raw("config_data/k"), "3")
				r.expect("the one whose caller left", r.times("k=left"), 0)
			})
		})
	}
}
