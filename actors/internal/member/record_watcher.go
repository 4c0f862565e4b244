package member

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// OwnRecord is what the watch of members/<me> says: the member learns from it
// that another program deleted or overwrote its record, or that its predecessor's is gone.
type OwnRecord struct {
	Known bool
	Found bool
	Entry store.Entry
	Index uint64
	// View counts the answers: see leaderKey.
	View uint64
	// Was is the session that last held the record.
	Was string
}

// registered tells whether the record had been session's before what it is now.
func (r OwnRecord) registered(session string) bool { return r.Was == session }

func NewRecordWatcher(b *actor.Base, out *messages.State[OwnRecord]) *actor.Watcher {
	return actor.NewKeyWatcher(b, "member record", b.Keys.Member(b.ID), func(v store.View) {
		last := out.Get()
		next := OwnRecord{Known: true, Index: v.Index, View: last.View + 1, Was: last.Was}
		if last.Entry.Session != "" {
			next.Was = last.Entry.Session
		}
		if len(v.Entries) > 0 {
			next.Found, next.Entry = true, v.Entries[0]
		}
		out.Set(next)
	})
}
