package leader

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

func NewWorkloadWatcher(b *actor.Base, term uint64,
	out *messages.State[facts.Workload]) *actor.Watcher {
	unreadable := protocol.UnreadableKeys{Log: b.Log}
	return actor.NewPrefixWatcher(b, "workload", b.Keys.Workload(), func(v store.View) {
		last := out.Get()
		next := facts.Workload{Term: term, Index: v.Index,
			Items: messages.TableFrom(func(yield func(string, facts.WorkItem) bool) {
				for e, w := range protocol.Read(v.Entries, b.Keys.ReadWorkItem, unreadable.Skip) {
					if !yield(w.ID, facts.WorkItem{Weight: w.Weight,
						CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex}) {
						return
					}
				}
			})}
		if last.Term == term && last.Items.Len() != next.Items.Len() {
			b.Log.Info("workload-changed", "items", next.Items.Len(), "were", last.Items.Len())
		}
		out.Set(next)
	})
}
