package actors_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
)

// Who removes an item and adds it again at once means a new one: the leader may see both in one
// look, or before it heeds a removal.
func TestAQuarantinedItemThatIsMadeAnewIsTriedAnew(t *testing.T) {
	for _, pause := range []time.Duration{0, 100 * time.Millisecond, time.Minute} {
		logged(t, func(w watched) {
			var tries atomic.Int64
			var mended atomic.Bool
			w.addWork(w.items(3)...)
			sick := w.items(1)[0]
			for _, id := range []string{"n1", "n2"} {
				w.start(id, limited(2), w.failing(&tries, func(_, item string) bool {
					return item == sick && !mended.Load()
				}))
			}
			w.quarantined(sick)
			time.Sleep(time.Minute)
			// Another payload is no other item.
			w.addWork(sick)
			w.must(w.op.AddWork(w.t.Context(), operator.WorkInput{ID: sick, Payload: []byte("x")}))
			time.Sleep(time.Minute)
			if i := w.item(sick); i.State != operator.ItemQuarantined {
				t.Errorf("with another payload it is %v", i.State)
			}
			mended.Store(true)
			w.must(w.op.RemoveWork(w.t.Context(), sick))
			time.Sleep(pause)
			if pause > time.Second && w.noted(sick) {
				t.Error("it is removed, and noted still")
			}
			w.addWork(sick)
			w.await("the new one runs", 10*time.Second, w.state(sick, operator.ItemRunning))
			if w.noted(sick) {
				t.Error("it is noted still that it failed")
			}
		})
	}
}
