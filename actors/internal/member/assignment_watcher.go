package member

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// NewAssignmentWatcher follows this member's own assignments. It runs whether or
// not the member is registered; the workers tell by the index whether a view
// counts under their registration.
func NewAssignmentWatcher(b *actor.Base, out *messages.State[facts.Assignments]) *actor.Watcher {
	unreadable := protocol.UnreadableKeys{Log: b.Log}
	return actor.NewPrefixWatcher(b, "my assignments", b.Keys.AssignmentsOf(b.ID),
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
}
