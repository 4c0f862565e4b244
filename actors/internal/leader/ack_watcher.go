package leader

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

func NewAckWatcher(b *actor.Base, term uint64, out *messages.State[messages.Acks]) *actor.Watcher {
	odd := protocol.StrangeKeys{Log: b.Log}
	return actor.NewPrefixWatcher(b, "acks", b.Keys.Acks(), func(v store.View) {
		found, last := map[string]messages.Ack{}, out.Get()
		longest := last.Longest
		for _, e := range v.Entries {
			id, ok := b.Keys.ParseAck(e.Key)
			if !ok {
				odd.Skip(e, "no member id")
				continue
			}
			ack, err := protocol.ParseAck(e.Value)
			if err != nil {
				odd.Skip(e, err.Error()) // its index still says "look again"
			}
			next := messages.Ack{Session: ack.Session, TTL: ack.TTL, ModifyIndex: e.ModifyIndex}
			was, _ := last.Items.Get(id)
			if next.Session == "" {
				next.Session, next.TTL = was.Session, 0
			}
			if next.TTL == 0 {
				next.TTL = was.TTL
			}
			longest = max(longest, next.TTL)
			found[id] = next
		}
		out.Set(messages.Acks{Term: term, Index: v.Index, Items: messages.TableOf(found),
			Longest: longest})
	})
}
