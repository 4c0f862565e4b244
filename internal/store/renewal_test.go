package store_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
)

// While there is a lease a failed renewal is tried again after TTL/20 at the latest; without one
// the ladder decides. A session that is gone is replaced at once.
func TestARenewalIsDueSoonerWhileThereIsALeaseToBeSaved(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
		down := false
		s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
			if down {
				return nil, errors.New("no route")
			}
			return consul.RoundTripper().RoundTrip(r)
		}))
		r := renewal(s)
		var lease facts.Lease
		id := ""
		ask := func() (wait time.Duration, err error) {
			got, next, err := r.Ask(t.Context(), id)
			if err == nil {
				id, lease = got, next
			}
			return time.Until(r.Due(err, lease)), err
		}
		for _, what := range []string{"open", "renew"} {
			if wait, err := ask(); err != nil || wait != r.Every || r.Failing() ||
				lease.Start != time.Now() {
				t.Fatalf("%s: due in %v, lease %v, error %v", what, wait, lease, err)
			}
			time.Sleep(r.Every)
		}
		down = true
		for try := range 10 {
			wait, err := ask()
			if err == nil || !r.Failing() || wait > store.DefaultTTL/20 || wait < 40*time.Millisecond {
				t.Errorf("try %d within the lease: due in %v, error %v", try, wait, err)
			}
		}
		time.Sleep(lease.TTL)
		if wait, _ := ask(); wait < 4*time.Second {
			t.Errorf("without a lease: due in %v", wait)
		}
		down = false
		must(t, s.DestroySession(t.Context(), id))
		if wait, err := ask(); !errors.Is(err, store.ErrSessionGone) || wait > 0 || r.Failing() {
			t.Errorf("gone: due in %v, error %v", wait, err)
		}
		gone := id
		id = ""
		if _, err := ask(); err != nil || id == "" || id == gone {
			t.Errorf("opened %q after %q, error %v", id, gone, err)
		}
	})
}

// A silence in which packets are dropped leaves a renewal without an answer for good. Whenever it
// begins, and though the first answers after it are errors, the lease is saved; a Consul that takes
// a fifth of the lease for each answer is asked little more often.
func TestARenewalWithoutAnAnswerIsNotWaitedFor(t *testing.T) {
	const lease, margin = store.DefaultTTL, store.DefaultTTL / 10
	for name, c := range map[string]struct {
		begin, silence, slow time.Duration
		errors, most         int
	}{
		"from the first renewal on": {begin: 3 * time.Second, silence: 4 * time.Second, errors: 2},
		"within its confirming read": {begin: 3340 * time.Millisecond, silence: 4 * time.Second,
			errors: 2},
		"as long as it may last": {begin: 3300 * time.Millisecond,
			silence: 5100 * time.Millisecond},
		"slow with each answer": {slow: lease / 5, most: 8},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
				begin, errs := time.Now(), c.errors
				var asked atomic.Int64
				var mu sync.Mutex
				s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
					at := time.Since(begin)
					asked.Add(1)
					mu.Lock()
					failing := c.silence > 0 && at >= c.begin+c.silence && errs > 0
					if failing {
						errs--
					}
					mu.Unlock()
					switch {
					case c.silence > 0 && at >= c.begin && at < c.begin+c.silence:
						return hang(r)
					case failing:
						return answer(r, 503, "upstream connect error"), nil
					}
					time.Sleep(10*time.Millisecond + c.slow)
					return consul.RoundTripper().RoundTrip(r)
				}))
				r := renewal(s)
				id, held, err := r.Ask(t.Context(), "")
				must(t, err)
				time.Sleep(time.Until(r.Due(nil, held)))
				opened := asked.Load()
				for held.Start.Sub(begin) < lease/4 {
					_, next, err := r.Ask(t.Context(), id)
					if !held.Valid(time.Now(), margin) {
						t.Fatalf("after %v the lease is over; the last renewal: %v",
							time.Since(begin), err)
					}
					if err == nil {
						held = next
					}
					time.Sleep(time.Until(r.Due(err, held)))
				}
				time.Sleep(lease) // until what lost the race has ended
				if n := int(asked.Load() - opened); c.most > 0 && n > c.most {
					t.Errorf("%d requests for one renewal, at most %d", n, c.most)
				}
			})
		})
	}
}
