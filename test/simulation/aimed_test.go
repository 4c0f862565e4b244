package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/aimed"
	"github.com/coordd/coordd/internal/protocol"
)

// Values that a stranger aims: in each field of each kind of key an impossible session, a huge
// number, a wrong type (package aimed has them), in keys of nobody's and in a living member's own;
// ids that are valid alone and make no key together. The stranger may say what cannot be. What only
// the member can know, such as that its work has ended, he does not say: that is believed.

// aims are the kinds of keys, and whose.
var aims = []string{
	"ghost-ack", "ghost-record", "ghost-assignment", "locked-record", "own-ack", "dead-ack",
	"own-record", "own-assignment", "no-item", "odd-item", "heavy-item", "order", "term", "leader",
	"leader_state", "sequence", "ids", "summary",
}

func drawAim(e *episode, r *rand.Rand) {
	e.how = aims[r.IntN(len(aims))]
	e.dur = time.Duration(5_000+r.IntN(35_000)) * time.Millisecond
}

// strangers adds aimed values, by dice of its own: a few to every third hard run.
func (p *plan) strangers() {
	r := rand.New(rand.NewPCG(p.seed, 10))
	more := 0
	switch {
	case p.profile == "aimed":
		more = 8
	case p.profile == "hard" && r.IntN(3) == 0:
		more = 1 + r.IntN(3)
	}
	for range more {
		e := episode{
			kind: "aimed", at: time.Duration(r.IntN(int(p.span))),
			who: []int{r.IntN(len(p.ids))}, n: r.IntN(1 << 20),
		}
		drawAim(&e, r)
		p.episodes = append(p.episodes, e)
	}
}

// aim draws a value of a kind; the fields are those that are fine, or those that are there.
func aim(r *rand.Rand, f aimed.Fields) []byte {
	if len(f) == 0 || r.IntN(6) == 0 {
		return []byte(aimed.Wholes[r.IntN(len(aimed.Wholes))])
	}
	names := f.Names()
	name := names[r.IntN(len(names))]
	value := aimed.Values[r.IntN(len(aimed.Values))]
	switch x := r.IntN(12); {
	case x < 6 && strings.Trim(f[name], "0123456789") == "": // a number
		value = []string{"9223372036854775807", "9223372036854775807", "-1",
			"18446744073709551615"}[x%4]
	case x == 0:
		value = `"` + strings.Repeat("x", 20_000) + `"`
	case x < 4 && (name == "by" || name == "process"):
		value = string(aim(r, aimed.Process))
	case x < 8 && name == "absent":
		value = fmt.Sprintf(`{"m":%s}`, aim(r, aimed.Waited))
	case x < 8 && name == "items":
		value = fmt.Sprintf(`[%s]`, aim(r, aimed.Report))
	}
	return f.With(name, value)
}

// aimed is what a stranger does who knows the keys. Whatever else it is, he writes into the event
// log too: by dice of its own, so that it changes nothing else.
func (w *world) aimed(e episode) []action {
	return append(w.aimedKeys(e), action{e.at, func() {
		r := rand.New(rand.NewPCG(w.plan.seed+1<<44, uint64(e.n)))
		for range 1 + r.IntN(4) {
			value := aim(r, aimed.Record)
			if r.IntN(2) == 0 {
				value = aimed.Record.With("e", fmt.Sprintf("[%s]", aim(r, aimed.Event)))
			}
			slots := []string{"0", "1", "7", "255", "256", "65536", "9223372036854775807", "-1",
				"01", "x", "1/2", ""}
			w.strangerSets("events/"+slots[r.IntN(len(slots))], value, 0)
		}
	}})
}

func (w *world) aimedKeys(e episode) []action {
	r := rand.New(rand.NewPCG(w.plan.seed+1<<43, uint64(e.n)))
	id := w.plan.ids[e.who[0]]
	name := fmt.Sprintf([]string{"ghost%d", "ghost %d", "ghost%%20%d"}[r.IntN(3)], e.n)
	write := func(key string, value []byte) { w.strangerSets(key, value, 0) }
	switch e.how {
	case "ghost-ack":
		return once(e, func() { write("acks/"+name, aim(r, aimed.Ack)) })
	case "ghost-record": // locked by no session: nobody's
		return once(e, func() { write("members/"+name, aim(r, aimed.Member)) })
	case "ghost-assignment":
		return once(e, func() {
			// If the item has no other key just then, it waits for one who never was.
			now := time.Now()
			w.unfair(now, now.Add(w.plan.settings.longest()), "a stranger's key of an item")
			write("assignments/"+w.anyItem(r), nil)
			write("assignments/"+name+"/"+w.anyItem(r), aim(r, aimed.Assignment))
			write("assignments/"+name+"/nothing", aim(r, aimed.Assignment))
			write("acks/"+name, []byte("1")) // "look again"
		})
	case "locked-record": // one that cannot be read
		return once(e, func() {
			value := aim(r, aimed.Member)
			for range 20 {
				if _, err := protocol.ParseMemberRecord(value); err != nil {
					w.strangerLocks("members/"+name, value)
					return
				}
				value = aim(r, aimed.Member)
			}
		})
	case "own-ack":
		return once(e, func() { w.twist(r, "acks/"+id, liesOfAck) })
	case "dead-ack":
		return []action{
			{e.at, func() {
				if p := w.proc(id); p != nil {
					if e.n%2 == 0 {
						w.destroy(p)
					}
					w.kill(p)
				}
				w.twist(r, "acks/"+id, liesOfAck)
			}},
			{e.at + e.dur, func() { w.start(id) }},
		}
	case "own-record":
		return once(e, func() { w.twist(r, "members/"+id, nil) })
	case "own-assignment":
		return once(e, func() {
			if p := w.proc(id); p != nil {
				for item := range p.member.Holdings().Get().Items.IDs() {
					w.twist(r, "assignments/"+id+"/"+item, nil)
					return
				}
			}
		})
	case "no-item":
		return once(e, func() {
			if w.proc(id) == nil {
				// nobody reads the share of one who left: that is a ghost's key, without the word
				// to look again
				return
			}
			write(fmt.Sprintf("assignments/%s/nothing%d", id, e.n), aim(r, aimed.Assignment))
		})
	case "odd-item":
		ids := []string{"a/b", " x", "x ", "a\nb", "\x1b]52;c;eA==\x07", strings.Repeat("x", 300),
			"%2e%2e", "a%20b", "a//b", "x/"}
		return once(e, func() { write("workload/"+ids[r.IntN(len(ids))], []byte("x")) })
	case "heavy-item":
		return w.heavy(e, r)
	case "order":
		keys := []string{"drain/a b", "drain/a/b", "drain/ghost", "pins/nothing", "pins/a/b",
			"whatever", "freeze/x", strings.Repeat("y", 10_000), "pins/" + strings.Repeat("z", 300)}
		values := []string{"", "x", "\xff", "a/b", "..", "a\nb", strings.Repeat("x", 30_000)}
		return once(e, func() {
			write("control/"+keys[r.IntN(len(keys))], []byte(values[r.IntN(len(values))]))
		})
	case "term":
		return w.aimedLeaderState(e, func() { w.twist(r, "term", liesOfTerm) })
	case "leader_state":
		return w.aimedLeaderState(e, func() { write("leader_state", aim(r, aimed.LeaderState)) })
	case "leader": // its lock stays
		return once(e, func() {
			w.strangerSets("leader", aim(r, nil), []uint64{0, 1 << 63, 1<<64 - 1}[r.IntN(3)])
		})
	case "sequence":
		keys := []string{"leader/0", "leader/1", "leader/3", "leader/x", fmt.Sprintf("join/%d",
			e.n%16)}
		return once(e, func() { write("sequence/"+keys[r.IntN(len(keys))], aim(r, nil)) })
	case "summary": // nothing but quarantine rests on it
		return once(e, func() {
			write("states/"+name, aim(r, aimed.Summary))
			write("states/"+id, aim(r, aimed.Summary))
		})
	case "ids": // of a version that lets such an id in
		return once(e, func() {
			w.strangerLocks(fmt.Sprintf("members/node %d", e.n), []byte("alive"))
			w.items.Add(1)
			w.putWork(fmt.Sprintf("https%%3A%%2F%%2Fx%d", e.n))
		})
	}
	panic("no such aim: " + e.how)
}

// aimedLeaderState changes what one leader leaves to the next, and has the next one come soon.
func (w *world) aimedLeaderState(e episode, do func()) []action {
	acts := once(e, do)
	if e.n%3 == 0 {
		return acts
	}
	id := ""
	return append(acts, action{e.at + time.Second, func() {
		if p := w.leader(); p != nil {
			if id = p.id; e.n%3 == 1 {
				w.kill(p)
			} else {
				w.stop(p)
			}
		}
	}}, action{e.at + e.dur, func() {
		if id != "" {
			w.start(id)
		}
	}})
}

// heavy gives an item an impossible weight for a time.
func (w *world) heavy(e episode, r *rand.Rand) []action {
	id := ""
	set := func(flags uint64) {
		if id == "" || !w.work[id] {
			return
		}
		w.strangerSets("workload/"+id, w.payload(id), flags)
	}
	return []action{
		{e.at, func() {
			id = w.anyItem(r)
			set([]uint64{1 << 31, 1 << 32, 1<<63 - 1, 1 << 63,
				1<<64 - 1}[r.IntN(5)])
		}},
		{e.at + e.dur, func() {
			for range 200 { // a Consul without a leader refuses it
				set(0)
				if x, ok := w.entry("workload/" + id); !ok || x.Flags == 0 {
					return
				}
				w.playUntil(time.Now().Add(200 * time.Millisecond))
			}
		}},
	}
}

// anyItem draws an item of the workload.
func (w *world) anyItem(r *rand.Rand) string {
	var ids []string
	for id := range w.work {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[r.IntN(len(ids))]
}

// entry is a key as Consul has it.
func (w *world) entry(key string) (x api.KVPair, ok bool) {
	for _, e := range w.consul.Dump().Entries {
		if e.Key == w.root+key {
			return api.KVPair{Key: e.Key, Value: e.Value, Flags: e.Flags,
				ModifyIndex: e.ModifyIndex}, true
		}
	}
	return x, false
}

// twist changes one field of what is there; lies tells whether the outcome says what only its
// writer can know.
func (w *world) twist(r *rand.Rand, key string, lies func(was, now []byte) bool) {
	x, ok := w.entry(key)
	if !ok {
		return
	}
	for range 20 {
		if value := aim(r, aimed.Of(x.Value)); lies == nil || !lies(x.Value, value) {
			w.strangerSets(key, value, x.Flags)
			return
		}
	}
}

// liesOfAck: that work has ended, that a lease is shorter, another number, or who wrote it.
func liesOfAck(was, now []byte) bool {
	x, err := protocol.ParseAck(was)
	y, err2 := protocol.ParseAck(now)
	return err == nil && err2 == nil && (y.Clear && !x.Clear || y.Stopped && !x.Stopped ||
		y.TTL < x.TTL || y.Keep < x.Keep)
}

func liesOfTerm(was, now []byte) bool {
	x, err := protocol.ParseTerm(was)
	y, err2 := protocol.ParseTerm(now)
	return err == nil && err2 == nil && (y.Clear && !x.Clear || y.Resigned && !x.Resigned ||
		y.TTL < x.TTL)
}

func (w *world) strangerSets(key string, value []byte, flags uint64) {
	w.stranger(&api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: w.root + key, Value: value,
		Flags: flags}})
}

// strangerLocks has a session of the stranger's hold a key, until all members have stopped.
func (w *world) strangerLocks(key string, value []byte) {
	id, _, err := w.client.Session().CreateNoChecks(&api.SessionEntry{}, nil)
	if err != nil {
		return // there is no leader
	}
	w.guests = append(w.guests, id)
	w.stranger(&api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVLock, Key: w.root + key, Value: value,
		Session: id}})
}

// dismiss ends the sessions of strangers.
func (w *world) dismiss() {
	for _, id := range w.guests {
		w.client.Session().Destroy(id, nil)
	}
}

// ghostly tells whether a key is of no interest to the checker, which takes each key by its form:
// that of an item at a member which never was, for a second key of the item; and what has no id,
// for an item.
func (w *world) ghostly(key string) bool {
	if id, ok := strings.CutPrefix(key, w.root+"workload/"); ok {
		return protocol.CheckID("item id", id) != nil
	}
	return strings.HasPrefix(key, w.root+"assignments/ghost")
}
