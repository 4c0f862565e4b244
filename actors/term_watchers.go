package actors

import (
	"strings"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// The watchers of a term turn Consul's prefixes into the states that the assigner plans from. Each
// stamps its state with the term in which it was read: what an earlier leadership had read is out
// of date.

func (h *base) termWatcher(what, prefix string, publish func(store.View)) *watcher {
	return &watcher{
		base: h, what: what,
		watch:   func() *store.Watch { return h.store.WatchPrefix(prefix) },
		publish: publish,
	}
}

func newMemberWatcher(h *base, term uint64, out *messages.State[messages.Members]) *watcher {
	odd := protocol.StrangeKeys{Log: h.log}
	return h.termWatcher("members", h.keys.Members(), func(v store.View) {
		found := map[string]messages.Member{}
		for _, e := range v.Entries {
			id, ok := h.keys.ParseMember(e.Key)
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
			h.log.Info("membership-changed", "members", next.Items.Len(), "were", last.Items.Len())
		}
		out.Set(next)
	})
}

func newAckWatcher(h *base, term uint64, out *messages.State[messages.Acks]) *watcher {
	odd := protocol.StrangeKeys{Log: h.log}
	return h.termWatcher("acks", h.keys.Acks(), func(v store.View) {
		found, last := map[string]messages.Ack{}, out.Get()
		longest := last.Longest
		for _, e := range v.Entries {
			id, ok := h.keys.ParseAck(e.Key)
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

func newWorkloadWatcher(h *base, term uint64, out *messages.State[messages.Workload]) *watcher {
	odd := protocol.StrangeKeys{Log: h.log}
	return h.termWatcher("workload", h.keys.Workload(), func(v store.View) {
		last := out.Get()
		next := messages.Workload{Term: term, Index: v.Index,
			Items: messages.TableFrom(func(yield func(string, messages.WorkItem) bool) {
				for _, e := range v.Entries {
					id, ok := h.keys.ParseWorkItem(e.Key)
					if !ok {
						odd.Skip(e, "no item id")
						continue
					}
					if !yield(id, messages.WorkItem{Weight: max(1, e.Flags),
						ModifyIndex: e.ModifyIndex}) {
						return
					}
				}
			})}
		if last.Term == term && last.Items.Len() != next.Items.Len() {
			h.log.Info("workload-changed", "items", next.Items.Len(), "were", last.Items.Len())
		}
		out.Set(next)
	})
}

// orderLife is how long the order to obey waits for a leader, by the clocks of who gave it and who
// reads it: one is there again within 35 s of the end of another. An older order may be about
// something else, and was carried out, if by anybody, by a leader before.
const orderLife = 5 * time.Minute

// newControlWatcher reads the operators' orders: control/freeze, control/obey,
// control/drain/<member>, control/pins/<item> with the member's id as its value.
func newControlWatcher(h *base, term uint64, out *messages.State[messages.Control]) *watcher {
	odd := protocol.StrangeKeys{Log: h.log}
	return h.termWatcher("control", h.keys.Control(), func(v store.View) {
		next := messages.Control{Term: term, Index: v.Index}
		drain, pins := map[string]struct{}{}, map[string]string{}
		var ordered time.Time
		for _, e := range v.Entries {
			name := strings.TrimPrefix(e.Key, h.keys.Control())
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
			h.log.Info("freeze-changed", "frozen", next.Freeze)
		}
		out.Set(next)
	})
}
