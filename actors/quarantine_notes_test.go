package actors_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// What failures are forgotten and what is noted anew in one look may go in two transactions, which
// arrive in either order: of an item of which both is so, the newer word stands.
func TestWhatFailsAsItsEarlierFailuresAreForgottenIsNoted(t *testing.T) {
	logged(t, func(w watched) {
		var hosts sync.Map
		sick := make(chan struct{})
		hosts.Store("n1", true)
		all := w.items(160)
		w.addWork(all...)
		var moved []string // from n1, which has nothing left to start work with
		fails := func(cfg *actors.Config) {
			work, id := cfg.Work, cfg.ID
			cfg.Work = func(ctx context.Context, x actors.Item) error {
				own, cancel := context.WithCancel(ctx)
				defer cancel()
				go func() {
					select {
					case <-own.Done():
					case <-sick:
						if slices.Contains(moved[:40], x.ID) {
							cancel()
						}
					}
				}()
				if err := work(own, x); ctx.Err() != nil || id == "n1" {
					return err
				}
				return errors.New("exit status 3")
			}
		}
		for _, id := range []string{"n1", "n2"} {
			w.start(id, limited(2), w.exhausted(&hosts), fails)
		}
		w.await("all run at n2", time.Minute, func() bool { return w.loads()["n2"] == 160 })
		for _, id := range all {
			if w.noted(id) {
				moved = append(moved, id)
			}
		}
		if len(moved) != 80 {
			t.Fatalf("%d items were tried elsewhere", len(moved))
		}
		w.stop("n1")
		w.must(w.op.Freeze(w.t.Context()))
		time.Sleep(11 * time.Minute) // what the host was to blame for counts no more
		close(sick)
		time.Sleep(2 * time.Minute)
		to := w.members["n2"].net.To()
		w.members["n2"].net.Via(transport.When(to, transport.TxnWith(`"delete"`, "/quarantine/"),
			func(r *http.Request) (*http.Response, error) {
				time.Sleep(50 * time.Millisecond)
				return to.RoundTrip(r)
			}))
		w.must(w.op.Thaw(w.t.Context()))
		time.Sleep(time.Minute)
		for _, id := range moved[:40] {
			if i := w.item(id); i.State != actors.ItemQuarantined {
				t.Fatalf("%s is %+v", id, i)
			}
		}
	})
}
