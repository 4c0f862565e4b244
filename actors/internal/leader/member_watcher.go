package leader

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

func NewMemberWatcher(b *actor.Base, term uint64,
	out *messages.State[facts.Members]) *actor.Watcher {
	unreadable := protocol.UnreadableKeys{Log: b.Log}
	return actor.NewPrefixWatcher(b, "members", b.Keys.Members(), func(v store.View) {
		found := map[string]facts.Member{}
		for e, m := range protocol.Read(v.Entries, b.Keys.ReadMember, unreadable.Skip) {
			found[m.ID] = memberOf(e, m)
		}
		last := out.Get()
		next := facts.Members{Term: term, Index: v.Index, Items: messages.TableOf(found)}
		if last.Term == term && last.Items.Len() != next.Items.Len() {
			b.Log.Info("membership-changed", "members", next.Items.Len(), "were", last.Items.Len())
		}
		out.Set(next)
	})
}

// memberOf is a member as the leader sees its record.
func memberOf(e store.Entry, m protocol.Member) facts.Member {
	return facts.Member{
		Leaving: m.Status == protocol.StatusLeaving, Idle: m.Idle, Unreadable: m.Unreadable,
		Address: m.Address, Session: e.Session,
		Capacity: m.Capacity, Zone: m.Zone, WorkVersion: m.WorkVersion,
		TellChanges: m.TellChanges, CreateIndex: e.CreateIndex,
	}
}
