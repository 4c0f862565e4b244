package simulation_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/hashicorp/consul/api"
)

// action is one moment of an episode.
type action struct {
	at time.Duration
	do func()
}

// misfortune plays the episodes, and ends when the last fault is over.
func (w *world) misfortune() {
	var actions []action
	for i, e := range w.plan.episodes {
		if w.plan.plays(i) {
			actions = append(actions, w.acts(e)...)
		}
	}
	if w.plan.profile == "forgetful" {
		for at := 2 * time.Second; at < w.plan.span; at += 4 * time.Second {
			actions = append(actions, action{at, w.snapshot})
		}
	}
	slices.SortStableFunc(actions, func(a, b action) int { return cmp.Compare(a.at, b.at) })
	begin := time.Now()
	for _, a := range actions {
		time.Sleep(time.Until(begin.Add(a.at)))
		a.do()
	}
	time.Sleep(time.Until(begin.Add(w.plan.span)))
}

// restoreOrder ends all faults, and starts members again until enough live.
func (w *world) restoreOrder() {
	w.calm.Store(true)
	w.consul.ElectionEnd()
	for i, id := range w.plan.ids {
		if w.left[id] && i > 0 {
			continue
		}
		if p := w.proc(id); p == nil || p.isLeaving() {
			w.later(func() {
				if p != nil {
					<-p.done
				}
				w.start(id)
			})
		}
	}
	w.mu.Lock()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		p.death = ""
		p.mu.Unlock()
		p.link.mu.Lock()
		p.link.cut, p.link.storms = nil, nil
		p.link.mu.Unlock()
		p.thaw()
	}
}

func (p *process) isLeaving() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaving
}

// later runs f beside everything else; the run ends when it has.
func (w *world) later(f func()) {
	w.flying.Add(1)
	go func() {
		defer w.flying.Done()
		f()
	}()
}

func (w *world) proc(id string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.procs[id]
}

// each calls f for those of the members that run.
func (w *world) each(who []int, f func(*process)) {
	for _, i := range who {
		if p := w.proc(w.plan.ids[i]); p != nil {
			f(p)
		}
	}
}

// leader is the member that has the leader key's lock by its own word; nil: none.
func (w *world) leader() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.plan.ids {
		if p := w.procs[id]; p != nil && p.member.Leadership().Get().Term != 0 {
			return p
		}
	}
	return nil
}

// acts are what an episode does, moment by moment.
func (w *world) acts(e episode) []action {
	var hit []*process // the processes that were hit are those that are mended
	both := func(begin, end func(*process)) []action {
		return []action{
			{e.at, func() {
				hit = nil
				w.each(e.who, func(p *process) { hit = append(hit, p); begin(p) })
			}},
			{e.at + e.dur, func() {
				for _, p := range hit {
					end(p)
				}
			}},
		}
	}
	cut := func(how string) []action {
		return both(func(p *process) { p.link.set(how) }, func(p *process) { p.link.unset(how) })
	}
	once := func(f func()) []action { return []action{{e.at, f}} }
	switch e.kind {
	case "storm", "drizzle", "denials":
		return both(func(p *process) {
			p.link.mu.Lock()
			p.link.storms = append(p.link.storms, e.weather)
			p.link.mu.Unlock()
		}, func(p *process) {
			p.link.mu.Lock()
			p.link.storms = slices.DeleteFunc(slices.Clone(p.link.storms), func(x weather) bool { return x.rate == e.weather.rate })
			p.link.mu.Unlock()
		})
	case "cut", "blip":
		return cut(e.how)
	case "deaf":
		return cut("deaf")
	case "freeze":
		return both((*process).freeze, (*process).thaw)
	case "kill":
		return []action{
			{e.at, func() { w.each(e.who, func(p *process) { w.doom(p, e.how) }) }},
			{e.at + e.dur, func() { w.start(w.plan.ids[e.who[0]]) }},
		}
	case "takeover":
		id := ""
		return []action{
			{e.at, func() { w.addWork(1 + e.n); w.removeWork(e.n) }},
			{e.at + time.Duration(e.n*37)*time.Millisecond, func() {
				if p := w.leader(); p != nil {
					id = p.id
					w.doom(p, e.how)
				}
			}},
			{e.at + e.dur, func() {
				if id != "" {
					w.start(id)
				}
			}},
		}
	case "leave", "join":
		id := w.plan.ids[e.who[0]]
		return []action{
			{e.at, func() {
				if p := w.proc(id); p != nil {
					w.stop(p)
				}
			}},
			{e.at + e.dur, func() {
				if e.n%4 == 0 && e.who[0] != 0 {
					w.left[id] = true
					return
				}
				delete(w.left, id)
				w.start(id)
			}},
		}
	case "destroy":
		return once(func() { w.each(e.who, w.destroy) })
	case "blind":
		return both(func(p *process) { w.destroy(p); p.link.set(e.how) }, func(p *process) { p.link.unset(e.how) })
	case "orphan":
		return both(func(p *process) {
			p.link.set("deaf")
			w.early(p)
			w.stranger(&api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVDelete, Key: w.root + "members/" + p.id}})
		}, func(p *process) { p.link.unset("deaf") })
	case "strange":
		return once(func() { w.strange(e) })
	case "election":
		return []action{{e.at, w.consul.ElectionStart}, {e.at + e.dur, w.consul.ElectionEnd}}
	case "restart":
		// Its port is closed meanwhile; what it held in its log it has again.
		all := make([]int, len(w.plan.ids))
		for i := range all {
			all[i] = i
		}
		e.who = all
		acts := cut("refused")
		acts = append(acts, action{e.at, w.consul.ElectionStart})
		if e.n%2 == 0 {
			return append(acts, action{e.at + e.dur, w.consul.ElectionEnd})
		}
		// Its log is long: until it has applied all of it, it answers from the past. Without a snapshot that begins with nothing at all.
		past := w.empty
		if e.n%3 > 0 {
			acts = append(acts, action{max(0, e.at-time.Duration(e.n%40_000)*time.Millisecond), func() { past = w.consul.Moment() }})
		}
		return append(acts,
			action{e.at + e.dur, func() { w.consul.ElectionEndBehind(past) }},
			action{e.at + e.dur + time.Duration(300+e.n%700)*time.Millisecond, w.consul.ElectionEnd})
	case "work":
		return once(func() {
			if e.how != "remove" {
				w.addWork(e.n)
			}
			if e.how != "add" {
				w.removeWork(e.n)
			}
		})
	case "twin":
		var p *process
		return []action{
			{e.at, func() {
				w.mu.Lock()
				p = w.newProcess(w.plan.ids[e.who[0]], true)
				w.mu.Unlock()
			}},
			{e.at + e.dur, func() { w.kill(p) }},
		}
	case "stray": // the leader's plan is under way for long, while others come and somebody else may lead
		var leader *process
		id := w.plan.ids[e.who[0]]
		acts := []action{
			{e.at, func() {
				if p := w.proc(id); p != nil && p != w.leader() {
					w.stop(p)
				}
			}},
			{e.at + 8*time.Second, func() {
				if leader = w.leader(); leader != nil {
					leader.link.mu.Lock()
					leader.link.stray = true
					leader.link.mu.Unlock()
				}
				w.addWork(2 + e.n%6)
			}},
			{e.at + 8*time.Second + time.Duration(300+e.n%3000)*time.Millisecond, func() { w.start(id) }},
			{e.at + 12*time.Second, func() {
				if leader == nil {
					return
				}
				leader.link.mu.Lock()
				leader.link.stray = false
				leader.link.mu.Unlock()
				if e.how == "depose" {
					w.destroy(leader)
				}
			}},
		}
		return acts
	case "late-lease":
		return both(func(p *process) {
			p.link.mu.Lock()
			p.link.lateLease = 2
			p.link.mu.Unlock()
		}, func(p *process) {
			p.link.mu.Lock()
			p.link.lateLease = 0
			p.link.mu.Unlock()
			p.link.unset("silent")
		})
	case "usurper": // a second process takes the id over while the first is still inside its lease, and does not know
		var twin *process
		begin := func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			twin = w.newProcess(w.plan.ids[e.who[0]], true)
		}
		end := func() {
			if e.n%2 == 0 {
				w.stop(twin)
			} else {
				w.kill(twin)
			}
		}
		acts := both(func(p *process) { w.destroy(p); p.link.set(e.how) }, func(p *process) { p.link.unset(e.how) })
		acts = append(acts, action{e.at + 200*time.Millisecond, begin}, action{e.at + 2500*time.Millisecond, func() { w.addWork(2 * len(w.plan.ids)) }},
			action{e.at + time.Duration(2000+e.n%4000)*time.Millisecond, func() {
				if e.n%3 == 0 { // and a third right after it
					end()
					begin()
				}
			}},
			action{e.at + time.Duration(4000+e.n%40000)*time.Millisecond, func() { end() }})
		return acts
	case "unseen": // a member is back before its grace is over, and neither it nor the leader has eyes
		id := w.plan.ids[e.who[0]]
		var leader, back *process
		return []action{
			{e.at, func() {
				if p := w.proc(id); p != nil && p != w.leader() {
					w.destroy(p)
					w.kill(p)
					leader = w.leader()
				}
			}},
			{e.at + 500*time.Millisecond, func() {
				if leader != nil {
					leader.link.set("no-polls")
				}
			}},
			{e.at + 2*time.Second + time.Duration(e.n%7000)*time.Millisecond, func() {
				if back = w.start(id); back != nil {
					back.link.set("no-polls")
				}
			}},
			{e.at + e.dur, func() {
				if leader != nil {
					leader.link.unset("no-polls")
				}
				if back != nil {
					back.link.unset("no-polls")
				}
			}},
		}
	case "boomerang": // an item goes and comes back while its first release is still under way
		item := ""
		return []action{
			{e.at, func() {
				p := w.proc(w.plan.ids[e.who[0]])
				if p == nil || e.who[0] == e.who[1] {
					return
				}
				for id := range p.member.Holdings().Get().Items.IDs() {
					if item = id; w.work[item] {
						break
					}
				}
				if item != "" {
					p.link.mu.Lock()
					p.link.strayRelease = time.Now().Add(20*time.Second + 50*time.Millisecond)
					p.link.mu.Unlock()
					w.pin(item, w.plan.ids[e.who[1]])
				}
			}},
			{e.at + 7*time.Second, func() {
				if item != "" {
					w.pin(item, w.plan.ids[e.who[0]])
				}
			}},
			{e.at + 20*time.Second, func() {
				if item != "" {
					w.pin(item, w.plan.ids[e.who[1]])
				}
			}},
			{e.at + e.dur, func() {
				if item != "" {
					w.unpin(item)
				}
			}},
		}
	case "changeling": // a member has a new session, and the leader grants to the old one
		var leader *process
		return []action{
			{e.at, func() {
				if leader = w.leader(); leader != nil {
					leader.link.set("no-members")
				}
			}},
			{e.at + 100*time.Millisecond, func() { w.each(e.who, w.destroy) }},
			{e.at + 3*time.Second, func() { w.addWork(len(w.plan.ids)) }},
			{e.at + e.dur, func() {
				if leader != nil {
					leader.link.unset("no-members")
				}
			}},
		}
	case "recall": // an item is to be given up, is called back while its work stops, and its member loses sight
		item := ""
		var p *process
		return []action{
			{e.at, func() {
				p = w.proc(w.plan.ids[e.who[0]])
				if p == nil || e.who[0] == e.who[1] {
					p = nil
					return
				}
				for id := range p.member.Holdings().Get().Items.IDs() {
					if item = id; w.work[item] {
						break
					}
				}
				if item != "" {
					w.pin(item, w.plan.ids[e.who[1]])
				}
			}},
			{e.at + 30*time.Millisecond, func() {
				if item != "" {
					w.unpin(item)
				}
			}},
			{e.at + 60*time.Millisecond, func() {
				if p != nil {
					p.link.set("no-polls")
				}
			}},
			{e.at + e.dur, func() {
				if p != nil {
					p.link.unset("no-polls")
				}
			}},
		}
	case "restore":
		return once(func() { w.restore(e.dur) })
	case "reset":
		return []action{
			{e.at, w.reset},
			{e.at + e.dur, func() {
				for id := range w.work {
					w.putWork(id)
				}
			}},
		}
	}
	panic("no such episode: " + e.kind)
}

// doom kills p around its next write, or after five seconds without one.
func (w *world) doom(p *process, how string) {
	if how == "now" {
		w.kill(p)
		return
	}
	p.mu.Lock()
	p.death = how
	p.mu.Unlock()
	w.later(func() {
		select {
		case <-p.gone:
		case <-time.After(5 * time.Second):
			w.kill(p)
		}
	})
}

// early writes down that what follows is none of p's doing.
func (w *world) early(p *process) { p.note(history.Event{Verb: history.Early}) }

// destroy ends p's session, as an operator or a leaving agent does.
func (w *world) destroy(p *process) {
	if id := p.member.Session().Get().ID; id != "" {
		w.early(p)
		w.client.Session().Destroy(id, nil)
	}
}

// stranger writes to Consul as somebody does who should not. A Consul without a leader refuses it.
func (w *world) stranger(ops ...*api.TxnOp) {
	w.client.Txn().Txn(ops, (&api.QueryOptions{}).WithContext(context.Background()))
}

func (w *world) strange(e episode) {
	id := w.plan.ids[e.who[0]]
	op := func(verb api.KVOp, key string) *api.TxnOp {
		return &api.TxnOp{KV: &api.KVTxnOp{Verb: verb, Key: w.root + key, Value: fmt.Appendf(nil, "{strange %d", e.n)}}
	}
	switch e.how {
	case "member-delete", "leader-delete":
		p := w.proc(id)
		key := "members/" + id
		if e.how == "leader-delete" {
			p, key = w.leader(), "leader"
		}
		if p != nil {
			w.early(p)
		}
		w.stranger(op(api.KVDelete, key))
	case "member-write":
		w.stranger(op(api.KVSet, "members/"+id))
	case "leader-write":
		w.stranger(op(api.KVSet, "leader"))
	case "leader-cas":
		for _, x := range w.consul.Dump().Entries {
			if x.Key == w.root+"leader" {
				o := op(api.KVCAS, "leader")
				o.KV.Index, o.KV.Flags = x.ModifyIndex, uint64(e.n)
				w.stranger(o)
			}
		}
	case "ack-delete":
		w.stranger(op(api.KVDelete, "acks/"+id))
	case "ack-write":
		w.stranger(op(api.KVSet, "acks/"+id))
	case "odd-keys":
		for _, key := range []string{"members/x/y", "members/", "members/plain", "workload/a/b", "workload/", "assignments/odd", "assignments/", "assignments/nobody/", "acks/", "acks/a/b", "control/whatever", "unknown/key"} {
			w.stranger(op(api.KVSet, key))
		}
	}
}

// pin orders that an item is to be run by a member, as an operator; unpin takes it back.
func (w *world) pin(item, member string) {
	w.retry(func(ctx context.Context) error {
		return w.user.Put(ctx, w.user.Keys().ControlKey("pins/"+item), []byte(member), 0)
	})
}

func (w *world) unpin(item string) {
	w.retry(func(ctx context.Context) error { return w.user.Delete(ctx, w.user.Keys().ControlKey("pins/"+item)) })
}

func (w *world) snapshot() {
	w.snapshots = append(w.snapshots, snapshot{time.Now(), w.consul.Snapshot()})
}

// amnesty is how long after a loss of writes members may still work by what was
// lost: a poll that is never answered, and a lease.
func (w *world) amnesty() time.Duration { return 67*time.Second + 3*w.plan.settings.longest() }

func (w *world) restore(age time.Duration) {
	best := -1
	for i, s := range w.snapshots {
		if time.Since(s.at) >= age {
			best = i
		}
	}
	if best < 0 {
		return
	}
	w.wire.Lock()
	defer w.wire.Unlock()
	if err := w.consul.Restore(w.snapshots[best].data); err != nil {
		panic(err)
	}
	w.forgot()
}

func (w *world) reset() {
	w.wire.Lock()
	defer w.wire.Unlock()
	w.consul.Reset()
	w.forgot()
}

// forgot writes down what Consul holds after it has lost writes.
func (w *world) forgot() {
	w.rec.Add(history.Event{Verb: history.Restored, For: w.amnesty()})
	clear(w.keys)
	for _, e := range w.consul.Dump().Entries {
		w.keys[e.Key] = true
		w.rec.Add(history.Event{Verb: history.Set, Index: e.ModifyIndex, Key: w.short(e.Key), Value: string(e.Value)})
	}
}
