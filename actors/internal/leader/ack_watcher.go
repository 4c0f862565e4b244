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
		for e, ack := range protocol.Read(v.Entries, b.Keys.ReadAck, odd.Skip) {
			next := messages.Ack{Session: ack.Session, TTL: ack.TTL, Failing: ack.Failing,
				ModifyIndex: e.ModifyIndex}
			was, _ := last.Items.Get(ack.Member)
			if next.Session == "" {
				next.Session, next.TTL = was.Session, 0
			}
			if next.TTL == 0 {
				next.TTL = was.TTL
			}
			longest = max(longest, next.TTL)
			found[ack.Member] = next
		}
		out.Set(messages.Acks{Term: term, Index: v.Index, Items: messages.TableOf(found),
			Longest: longest})
	})
}
