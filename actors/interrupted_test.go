package actors_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
)

// What ends all work of a host is no failure of any item.
func TestWorkThatWasInterruptedHasNotFailed(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		w.addWork(w.items(3)...)
		w.start("n1", limited(1), func(cfg *actors.Config) {
			work := cfg.Work
			cfg.Work = func(ctx context.Context, x actors.Item) error {
				if tries.Add(1) <= 12 {
					return fmt.Errorf("command %q: %w", x.ID,
						actors.Interrupted(errors.New("the guard process died")))
				}
				return work(ctx, x)
			}
		})
		w.await("all have been interrupted, and run", time.Minute, func() bool {
			return tries.Load() == 15
		})
		synctest.Wait()
		time.Sleep(time.Minute)
		for _, id := range w.items(3) {
			if i := w.item(id); i.State != operator.ItemRunning || w.noted(id) {
				t.Errorf("%s is %v, and noted %v", id, i.State, w.noted(id))
			}
		}
	})
}
