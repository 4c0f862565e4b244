package member

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
)

// itemChanges is what the running work of an item knows of its payload. The work's own goroutine
// reads it when the work is called, and the actor when the leader tells of a change.
type itemChanges struct {
	mu      sync.Mutex
	index   uint64      // of the workload's key as it was read last
	payload uint64      // its sum
	newest  store.Entry // that was read
	sent    chan []byte // nil: payloads are not sent
}

// sums is the seed of the sums of payloads, by which a changed weight is told from a payload.
var sums = maphash.MakeSeed()

func newItemChanges(on actor.OnChange) *itemChanges {
	c := &itemChanges{}
	if on == actor.SendOnChange {
		c.sent = make(chan []byte, 1)
	}
	return c
}

// behind tells whether the key has changed since it was read last.
func (c *itemChanges) behind(changed uint64) bool {
	return c != nil && changed > c.read()
}

// read is the ModifyIndex up to which the work knows its payload.
func (c *itemChanges) read() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index
}

// begins takes in what the work is called with: nothing older is sent to it.
func (c *itemChanges) begins(e store.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index, c.payload, c.newest = e.ModifyIndex, maphash.Bytes(sums, e.Value), e
	c.empty()
}

// known is what was read last, for work that is called again while the key cannot be read. It may
// have been sent to the work since that was called, and nobody tells of it once more.
func (c *itemChanges) known() store.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.empty()
	return c.newest
}

// empty takes back what the work has not taken.
func (c *itemChanges) empty() {
	select {
	case <-c.sent:
	default:
	}
}

// take takes in what was read when the leader told of a change up to an index, and sends it where
// payloads are sent. It reports whether the payload has changed since it was read last.
func (c *itemChanges) take(e store.Entry, told uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.ModifyIndex <= c.index {
		c.index = max(c.index, told) // such as of a Consul that was restored
		return false
	}
	c.index, c.newest = max(e.ModifyIndex, told), e
	sum := maphash.Bytes(sums, e.Value)
	if sum == c.payload {
		return false // its weight has changed
	}
	c.payload = sum
	if c.sent != nil {
		c.empty() // the newest counts
		c.sent <- e.Value
	}
	return true
}

// changes reads the payloads of running items whose leader has told that they have changed, and
// sends them to the work, or stops it, to be started anew under the same grant. An item that is no
// more in the workload is left to the leader.
func (a *WorkerManager) changes(ctx context.Context, s snapshot, ids []string) error {
	ops := make([]store.Op, len(ids))
	for i, id := range ids {
		ops[i] = store.GetOrEmpty(a.Keys.WorkItem(id))
	}
	result, err := a.Store.Txn(ctx, ops...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		key, _ := s.view.Items.Get(id)
		e, _ := result.Entry(a.Keys.WorkItem(id))
		if a.table.items[id].changes.take(e, key.Changed) && a.OnChange == actor.RestartOnChange {
			a.Log.Info("item-changed", "item", id, "then", "its work is stopped, and started anew")
			a.stop(s, []string{id})
		}
	}
	return nil
}
