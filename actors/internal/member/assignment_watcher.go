package member

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// NewAssignmentWatcher follows this member's own assignments. It runs whether or
// not the member is registered; the workers tell by the index whether a view
// counts under their registration.
func NewAssignmentWatcher(b *actor.Base, out *messages.State[messages.Assignments]) *actor.Watcher {
	odd := protocol.StrangeKeys{Log: b.Log}
	return actor.NewPrefixWatcher(b, "my assignments", b.Keys.AssignmentsOf(b.ID),
		func(v store.View) {
			own, releasing := 0, 0
			items := messages.TableFrom(func(yield func(string, messages.Assignment) bool) {
				for _, e := range v.Entries {
					_, item, ok := b.Keys.ParseAssignment(e.Key)
					if item == "" && ok {
						continue // the sentinel
					}
					if !ok {
						odd.Skip(e, "no item id")
						continue
					}
					a, err := actor.AssignmentOf(e)
					if err != nil {
						odd.Skip(e, err.Error())
					}
					if a.Releasing {
						releasing++
					} else {
						own++
					}
					if !yield(item, a) {
						return
					}
				}
			})
			b.Log.Debug("my-assignments-changed", "own", own, "releasing", releasing, "index",
				v.Index)
			out.Set(messages.Assignments{Index: v.Index, Items: items})
		})
}
