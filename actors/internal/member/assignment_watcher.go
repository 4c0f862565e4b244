package member

import (
	"context"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// NewAssignmentWatcher follows this member's own assignments while the member is registered. The
// workers tell by the index whether a view counts under their registration. Before the registration
// has written the sentinel the prefix may be empty. A watch of it would wake, and read twice, at
// every write to the assignments of others: 1,000 members that start at once would do so for each
// registration and each grant.
func NewAssignmentWatcher(b *actor.Base, out *messages.State[facts.Assignments],
	membership messages.Reader[facts.Membership]) *actor.Watcher {
	unreadable := protocol.UnreadableKeys{Log: b.Log}
	w := actor.NewPrefixWatcher(b, "my assignments", b.Keys.AssignmentsOf(b.ID),
		func(v store.View) {
			own, releasing := 0, 0
			items := messages.TableFrom(func(yield func(string, facts.Assignment) bool) {
				for e, key := range protocol.Read(v.Entries, b.Keys.ReadAssignment, unreadable.Skip) {
					a := actor.AssignmentOf(e, key)
					if a.Releasing {
						releasing++
					} else {
						own++
					}
					if !yield(key.Item, a) {
						return
					}
				}
			})
			b.Log.Debug("assignments-seen", "own", own, "releasing", releasing, "index",
				v.Index)
			out.Set(facts.Assignments{Index: v.Index, Items: items})
		})
	w.While = func(ctx context.Context) error {
		_, err := membership.Wait(ctx, func(m facts.Membership) bool {
			return m.Phase == facts.Registered || m.Phase == facts.Leaving
		})
		return err
	}
	return w
}
