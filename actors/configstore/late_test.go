package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

func TestARefusedWriteStaysRefusedWhenAnEarlierTryOfItArrivesLate(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("k", "1")
		// The first try arrives a minute late; before the second one somebody else writes the key.
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			defer r.stranger("config_data/k", "theirs")
			return s.net.Late(time.Minute)(req)
		})
		if _, err := s.Put(r.ctx(time.Minute), "k", []byte("2")); !errors.Is(err,
			configstore.ErrConflict) {
			t.Fatalf("it had to wait, and another came first: %v", err)
		}
		time.Sleep(2 * time.Minute)
		r.expect("k", r.raw("config_data/k"), "theirs")
		r.expect("writes of what was refused", r.times("k=2"), 0)
		s.put("k", "3")
		r.expect("k", s.get("k"), "3")

		// The same, and the answer to what outdates the late try is lost as well.
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			defer r.stranger("config_data/k", "theirs")
			return s.net.Late(time.Minute)(req)
		})
		s.net.Next(4, s.net.Lose)
		if _, err := s.Put(r.ctx(time.Minute), "k", []byte("4")); !errors.Is(err,
			configstore.ErrConflict) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		r.expect("k", r.raw("config_data/k"), "theirs")
		s.put("k", "5")
		r.expect("k", s.get("k"), "5")
	})
}

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
