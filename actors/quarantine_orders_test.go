package actors_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// An operator pins work that fails to another member while the leader holds back: it is run there
// afterwards, and nobody quarantines it for being pinned.
func TestWorkThatIsPinnedAwayFromWhereItFailsRunsThere(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		w.addWork("a", "b")
		w.start("n1", limited(3), w.failing(&tries, func(_, item string) bool {
			return item == "a"
		}))
		w.await("it is tried", time.Minute, func() bool { return tries.Load() > 0 })
		w.must(w.op.Freeze(w.t.Context()))
		w.start("n2", limited(3))
		time.Sleep(time.Minute)
		w.must(w.op.Pin(w.t.Context(), "a", "n2"))
		w.must(w.op.Thaw(w.t.Context()))
		time.Sleep(30 * time.Second)
		if i := w.item("a"); i.State != actors.ItemRunning || i.Member != "n2" {
			t.Errorf("it is %+v", i)
		}
	})
}

// A Consul that is restored from before a report has forgotten it: it is said once more.
func TestWorkThatFailsIsReportedOnceMoreToAConsulThatForgotIt(t *testing.T) {
	logged(t, func(w watched) {
		sick := make(chan struct{})
		w.addWork("a", "b")
		w.start("n1", limited(2), func(cfg *actors.Config) {
			work := cfg.Work
			cfg.Work = func(ctx context.Context, x actors.Item) error {
				own, cancel := context.WithCancel(ctx)
				defer cancel()
				go func() {
					select {
					case <-own.Done():
					case <-sick:
						if x.ID == "a" {
							cancel()
						}
					}
				}()
				return work(own, x)
			}
		})
		w.await("both run", time.Minute, w.balanced(2))
		w.must(w.op.Freeze(w.t.Context()))
		time.Sleep(10 * time.Second)
		snapshot := w.consul.Snapshot()
		close(sick)
		time.Sleep(time.Minute)
		w.must(w.consul.Restore(snapshot))
		time.Sleep(time.Minute)
		w.must(w.op.Thaw(w.t.Context()))
		w.quarantined("a")
	})
}
