package leader

import (
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// orderLife is how long the order to obey waits for a leader, by the clocks of who gave it and who
// reads it: one is there again within 35 s of the end of another. An older order may be about
// something else, and was carried out, if by anybody, by a leader before.
const orderLife = 5 * time.Minute

// NewControlWatcher reads the operators' orders: control/freeze, control/obey,
// control/drain/<member>, control/pins/<item> with the member's id as its value.
func NewControlWatcher(b *actor.Base, term uint64,
	out *messages.State[messages.Control]) *actor.Watcher {
	odd := protocol.StrangeKeys{Log: b.Log}
	return actor.NewPrefixWatcher(b, "control", b.Keys.Control(), func(v store.View) {
		next := messages.Control{Term: term, Index: v.Index}
		drain, pins := map[string]struct{}{}, map[string]string{}
		var ordered time.Time
		for _, e := range v.Entries {
			name := strings.TrimPrefix(e.Key, b.Keys.Control())
			kind, id, _ := strings.Cut(name, "/")
			switch {
			case name == "freeze":
				next.Freeze = true
			case name == "obey":
				next.Obey = e.ModifyIndex
				ordered, _ = time.Parse(time.RFC3339Nano, string(e.Value))
			case kind == "drain" && protocol.CheckID("member id", id) == nil:
				drain[id] = struct{}{}
			case kind == "pins" && protocol.CheckID("item id", id) == nil &&
				protocol.CheckID("member id", string(e.Value)) == nil:
				pins[id] = string(e.Value)
			default:
				odd.Skip(e, "no order that this version knows")
			}
		}
		last := out.Get()
		next.Drain, next.Pins = messages.TableOf(drain), messages.TableOf(pins)
		next.ObeyAt = last.ObeyAt
		switch {
		case last.Term == term && next.Obey > last.Obey,
			last.Term != term && next.Obey > 0 && time.Since(ordered).Abs() < orderLife:
			next.ObeyAt = time.Now()
		case last.Term != term:
			next.ObeyAt = time.Time{}
		}
		if last.Freeze != next.Freeze {
			b.Log.Info("freeze-changed", "frozen", next.Freeze)
		}
		out.Set(next)
	})
}
