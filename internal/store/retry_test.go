package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

func TestTheLadderNeverStopsAndStartsAnewAfterReset(t *testing.T) {
	l := store.NewSteadyLadder()
	want := []time.Duration{50, 100, 200, 500, 1000, 2000, 5000, 5000, 5000}
	for range 2 {
		for i, ms := range want {
			if got := l.NextBackOff(); got != ms*time.Millisecond {
				t.Errorf("wait %d is %v, want %v", i, got, ms*time.Millisecond)
			}
		}
		for range 10_000 {
			if got := l.NextBackOff(); got != 5*time.Second {
				t.Fatalf("later: %v", got)
			}
		}
		l.Reset()
	}
}

// reporting returns a store with a log, and what it has logged.
func reporting(t *testing.T, rt http.RoundTripper) (store.Store, *lines) {
	log := &lines{}
	return over(t, rt, func(c *store.Config) { c.Logger = log.logger() }), log
}

var errUnreachable = fmt.Errorf("get k: %w: refused", store.ErrUnreachable)

func TestRetryGoesOnUntilSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := reporting(t, tripper(hang))
		start, tries := time.Now(), 0
		err := store.Retry(t.Context(), s, "reading", func(context.Context) error {
			if tries++; time.Since(start) < 12*time.Second {
				return errUnreachable
			}
			return nil
		})
		must(t, err)
		if tries < 8 || tries > 12 {
			t.Errorf("%d tries in 12 s", tries)
		}
		got := log.take()
		last := got[len(got)-1]
		if len(got) < 3 || len(got) > 4 || !strings.Contains(last, "msg=reconnected-to-consul") ||
			!strings.Contains(last, fmt.Sprintf("tries=%d ", tries-1)) ||
			!strings.Contains(last, "outage=1") {
			t.Errorf("log:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestRetryReturnsWhatTryingAgainDoesNotHelp(t *testing.T) {
	s := over(t, tripper(hang))
	for _, want := range []error{store.ErrRefused, store.ErrSessionGone, store.ErrInvalid,
		store.ErrNotFound, io.EOF} {
		tries := 0
		err := store.Retry(t.Context(), s, "x", func(context.Context) error {
			tries++
			return fmt.Errorf("x: %w", want)
		})
		if !errors.Is(err, want) || tries != 1 {
			t.Errorf("%d tries, error %v, want %v", tries, err, want)
		}
	}
}

func TestADeniedCallIsTriedSlowlyAndSaidSeldom(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
		tries, allowedAt := 0, time.Now().Add(72*time.Second)
		s, log := reporting(t, tripper(func(r *http.Request) (*http.Response, error) {
			if tries++; time.Now().Before(allowedAt) {
				return answer(r, 403, "Permission denied"), nil
			}
			return consul.RoundTripper().RoundTrip(r)
		}))
		must(t, store.Retry(t.Context(), s, "write", func(ctx context.Context) error {
			return keys.Put(ctx, s, "k", nil, 0)
		}))
		if tries != 16 { // one at once, then one every 5 s, the last at 75 s
			t.Errorf("%d tries", tries)
		}
		got := log.take()
		if len(got) != 3 || !strings.Contains(got[0], "msg=consul-denied") ||
			!strings.Contains(got[0], "key:write") {
			t.Errorf("log:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestRetryEndsWithItsContextAndSaysBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := over(t, tripper(hang))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := store.Retry(ctx, s, "reading", func(context.Context) error { return errUnreachable })
		wantKind(t, err, store.ErrUnreachable, true)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		err = store.Retry(ctx, s, "reading", func(ctx context.Context) error {
			_, _, _, err := s.Get(ctx, "k", store.Default)
			return err
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("error %v", err)
		}
	})
}

func TestAnOutageOfManyCallersIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := reporting(t, tripper(hang))
		for range 3 {
			for i := range 10 {
				s.Failed(fmt.Sprint("actor ", i), errUnreachable, 200*time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond)
		}
		got := log.take()
		if len(got) != 1 || !strings.Contains(got[0], "msg=consul-unreachable") ||
			!strings.Contains(got[0], "retry_in=0.2s") || !strings.Contains(got[0], "addr=") {
			t.Errorf("log:\n%s", strings.Join(got, "\n"))
		}
		s.Succeeded("someone else") // says nothing about those who fail
		for i := range 9 {
			s.Succeeded(fmt.Sprint("actor ", i))
		}
		if got := log.take(); got != nil {
			t.Errorf("too early:\n%s", strings.Join(got, "\n"))
		}
		s.Succeeded("actor 9")
		s.Succeeded("actor 9")
		got = log.take()
		if len(got) != 1 || !strings.Contains(got[0], "msg=reconnected-to-consul") ||
			!strings.Contains(got[0], "tries=30") || !strings.Contains(got[0], "outage=0.6s") {
			t.Errorf("log:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestACallerThatVanishedDoesNotKeepTheOutageOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := reporting(t, tripper(hang))
		s.Failed("stopped", errUnreachable, time.Second)
		s.Failed("alive", errUnreachable, time.Second)
		log.take()
		time.Sleep(time.Second)
		s.Succeeded("alive")
		time.Sleep(31 * time.Second)
		s.Succeeded("alive")
		if got := log.take(); len(got) != 1 ||
			!strings.Contains(got[0], "msg=reconnected-to-consul") {
			t.Errorf("log:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestALinkThatFlapsDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := reporting(t, tripper(hang))
		for range 100 {
			s.Failed("get", errUnreachable, 50*time.Millisecond)
			time.Sleep(50 * time.Millisecond)
			s.Succeeded("get")
			time.Sleep(50 * time.Millisecond)
		}
		if got := log.take(); len(got) != 4 { // 10 s: two outages are told, from beginning to end
			t.Errorf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
		}
		s.Failed("get", errUnreachable, time.Second)
		time.Sleep(time.Second)
		s.Succeeded("get")
		if got := log.take(); len(got) == 0 || !strings.Contains(got[len(got)-1],
			"msg=reconnected-to-consul") {
			t.Errorf("an outage of a second is not told: %q", got)
		}
	})
}
