package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

func TestADenialAfterATryOfUnknownOutcomeDoesNotSayThatNothingWasWritten(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "1")
		s.net.Next(1, s.net.Lose)
		s.net.Next(2, denied)
		s.net.Next(3, denied)
		_, err := s.Put(r.ctx(time.Minute), "k", []byte("2"))
		if err == nil || errors.Is(err, configstore.ErrDenied) ||
			errors.Is(err, configstore.ErrConflict) || !errors.Is(err, configstore.ErrUnreachable) {
			t.Errorf("it was applied, and the caller hears %v", err)
		}
		r.expect("k", r.raw("config_data/k"), "2")
		s.put("k", "3")
		r.expect("k", s.get("k"), "3")
	})
}

func TestAWriteThatArrivesWhenItsCallerHasLeftReplacesNothingThatCameMeanwhile(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "1")
		s.put("gone", "1")
		for i, write := range []func(context.Context) error{
			func(ctx context.Context) error {
				_, err := s.Put(ctx, "k", []byte("late"))
				return err
			},
			func(ctx context.Context) error { return s.Delete(ctx, "gone") },
		} {
			s.net.Next(1, s.net.Late(time.Minute))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if err := write(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(i, err)
			}
			cancel()
			theirs := fmt.Sprint("theirs ", i) // Consul takes an equal value for no change
			r.stranger("config_data/k", theirs)
			r.stranger("config_data/gone", theirs)
			time.Sleep(2 * time.Minute)
			r.expect("k and gone", r.raw("config_data/k")+", "+r.raw("config_data/gone"),
				theirs+", "+theirs)
		}
	})
}

func TestAPutThatNeedNotWaitReplacesWhatTheCacheHasNotSeen(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		for i := range 20 {
			r.stranger("config_data/k", fmt.Sprint("theirs ", i))
			s.put("k", fmt.Sprint(i))
			r.expect("k", r.raw("config_data/k"), i)
			r.stranger("config_data/k", fmt.Sprint("theirs again ", i))
			must(t, s.Delete(t.Context(), "k"))
			r.expect("k", r.raw("config_data/k"), "-")
		}
	})
}
