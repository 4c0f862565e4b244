package member

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// LeaderKey is what the watch of the leader key says.
type LeaderKey struct {
	Known bool
	Found bool
	Entry store.Entry
	Index uint64
	// View counts the answers. A Consul that came back empty begins its index
	// anew: then only this tells an answer from before a lock from one after it.
	View uint64
}

func NewLeaderWatcher(b *actor.Base, out *messages.State[LeaderKey]) *actor.Watcher {
	return actor.NewKeyWatcher(b, "leader key", b.Keys.Leader(), func(v store.View) {
		next := LeaderKey{Known: true, Index: v.Index, View: out.Get().View + 1}
		if len(v.Entries) > 0 {
			next.Found, next.Entry = true, v.Entries[0]
		}
		out.Set(next)
	})
}
