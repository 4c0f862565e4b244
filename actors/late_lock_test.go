package actors_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/store"
)

// On a busy host a member may be registered before its guard process has its lock. Its ack names
// the lock as soon as there is one: else whoever comes after it would wait for its lease, though it
// is known to be dead.
func TestALockThatComesLateIsNamedInTheAck(t *testing.T) {
	run(t, func(c *cluster) {
		var lock atomic.Pointer[string]
		lock.Store(new(string))
		c.start("n1", func(cfg *actors.Config) {
			cfg.Lock = func() string { return *lock.Load() }
		})
		named := func() string {
			e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Ack("n1"), store.Consistent)
			if err != nil {
				t.Fatal(err)
			}
			ack, _, _ := c.store.Keys().ReadAck(e)
			return ack.By.Lock
		}
		time.Sleep(5 * time.Second)
		if got := named(); got != "" {
			t.Fatalf("it names %q before it has it", got)
		}
		const late = "803.5f2.0"
		held := late
		lock.Store(&held)
		time.Sleep(time.Second)
		if got := named(); got != late {
			t.Errorf("a second after it had its lock it names %q", got)
		}
		index := func() uint64 {
			e, _, _, _ := c.store.Get(c.t.Context(), c.store.Keys().Ack("n1"), store.Consistent)
			return e.ModifyIndex
		}
		before := index()
		time.Sleep(time.Minute)
		if after := index(); after != before {
			t.Errorf("its ack was written again, at %d after %d", after, before)
		}
	})
}
