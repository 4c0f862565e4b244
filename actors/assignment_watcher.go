package actors

import (
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// newAssignmentWatcher follows this member's own assignments. It runs whether or
// not the member is registered; the workers tell by the index whether a view
// counts under their registration.
func newAssignmentWatcher(h *base, out *messages.State[messages.Assignments]) *watcher {
	odd := protocol.StrangeKeys{Log: h.log}
	return &watcher{
		base: h, what: "my assignments",
		watch: func() *store.Watch { return h.store.WatchPrefix(h.keys.AssignmentsOf(h.ID)) },
		publish: func(v store.View) {
			own, releasing := 0, 0
			items := messages.TableFrom(func(yield func(string, messages.Assignment) bool) {
				for _, e := range v.Entries {
					_, item, ok := h.keys.ParseAssignment(e.Key)
					if item == "" && ok {
						continue // the sentinel
					}
					if !ok {
						odd.Skip(e, "no item id")
						continue
					}
					a, err := assignmentOf(e)
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
			h.log.Debug("my-assignments-changed", "own", own, "releasing", releasing, "index",
				v.Index)
			out.Set(messages.Assignments{Index: v.Index, Items: items})
		},
	}
}
