package leader

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

func NewMemberWatcher(b *actor.Base, term uint64,
	out *messages.State[messages.Members]) *actor.Watcher {
	odd := protocol.StrangeKeys{Log: b.Log}
	return actor.NewPrefixWatcher(b, "members", b.Keys.Members(), func(v store.View) {
		found := map[string]messages.Member{}
		for _, e := range v.Entries {
			id, ok := b.Keys.ParseMember(e.Key)
			if !ok {
				odd.Skip(e, "no member id")
				continue
			}
			if e.Session == "" {
				odd.Skip(e, "not locked by any session: no living member's record")
				continue
			}
			r, err := protocol.ParseMemberRecord(e.Value)
			if err != nil {
				odd.Skip(e, err.Error())
			}
			found[id] = messages.Member{
				Leaving: r.Status == protocol.StatusLeaving, Idle: r.Idle, Unreadable: err != nil,
				Address: r.Address, Session: e.Session,
				Capacity: r.Capacity, Zone: r.Zone, Version: r.Version, CreateIndex: e.CreateIndex,
			}
		}
		last := out.Get()
		next := messages.Members{Term: term, Index: v.Index, Items: messages.TableOf(found)}
		if last.Term == term && last.Items.Len() != next.Items.Len() {
			b.Log.Info("membership-changed", "members", next.Items.Len(), "were", last.Items.Len())
		}
		out.Set(next)
	})
}
