package leader

import (
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// orderLife is how long the order to release the brake waits for a leader at the least, by the
// clocks of who gave it and who reads it: with a TTL of 10 s one is there again within 35 s of the
// end of another. An older order may be about something else, and was carried out, if by anybody,
// by a leader before.
const orderLife = 5 * time.Minute

// NewControlWatcher follows the operators' orders.
func NewControlWatcher(b *actor.Base, term uint64,
	out *messages.State[facts.Control]) *actor.Watcher {
	unreadable := protocol.UnreadableKeys{Log: b.Log}
	life := max(orderLife, protocol.NoteLife(b.TTL, b.LockDelay))
	return actor.NewPrefixWatcher(b, "control", b.Keys.Control(), func(v store.View) {
		orders := b.Keys.ReadOrders(v.Entries, unreadable.Skip)
		next := facts.Control{Term: term, Index: v.Index, Freeze: orders.Frozen,
			Override: orders.Override, Drain: messages.TableOf(orders.Drained),
			Pins:           messages.TableOf(orders.Pins),
			Preferred:      messages.TableOf(orders.Preferred),
			RestartItems:   messages.TableOf(orders.RestartItems),
			RestartMembers: messages.TableOf(orders.RestartMembers),
			By:             messages.TableOf(orders.By)}
		last := out.Get()
		next.OverrideAt = last.OverrideAt
		switch {
		case last.Term == term && next.Override > last.Override,
			last.Term != term && next.Override > 0 && time.Since(orders.OverrideAt).Abs() < life:
			next.OverrideAt = time.Now()
		case last.Term != term:
			next.OverrideAt = time.Time{}
		}
		if last.Freeze != next.Freeze {
			b.Log.Info("freeze-changed", "frozen", next.Freeze)
		}
		out.Set(next)
	})
}
