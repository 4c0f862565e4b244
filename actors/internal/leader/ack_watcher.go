package leader

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

func NewAckWatcher(b *actor.Base, term uint64, out *messages.State[facts.Acks]) *actor.Watcher {
	unreadable := protocol.UnreadableKeys{Log: b.Log}
	return actor.NewPrefixWatcher(b, "acks", b.Keys.Acks(), func(v store.View) {
		found := map[string]facts.Ack{}
		for e, ack := range protocol.Read(v.Entries, b.Keys.ReadAck, unreadable.Skip) {
			found[ack.Member] = facts.Ack{Failing: ack.Failing, ModifyIndex: e.ModifyIndex}
		}
		out.Set(facts.Acks{Term: term, Index: v.Index, Items: messages.TableOf(found)})
	})
}
