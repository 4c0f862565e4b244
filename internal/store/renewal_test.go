package store_test

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// While there is a lease a failed renewal is tried again after TTL/20 at the latest; without one
// the ladder decides. A session that is gone is replaced at once.
func TestARenewalIsDueSoonerWhileThereIsALeaseToBeSaved(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ *store.Store) {
		down := false
		s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
			if down {
				return nil, errors.New("no route")
			}
			return consul.RoundTripper().RoundTrip(r)
		}))
		r := store.Renewal{
			Store: s, Every: store.MinTTL / 3, Log: slog.New(slog.DiscardHandler),
			Session: store.SessionOptions{Name: "test", TTL: store.MinTTL},
		}
		var lease messages.Lease
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
			if err == nil || !r.Failing() || wait > store.MinTTL/20 || wait < 40*time.Millisecond {
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
