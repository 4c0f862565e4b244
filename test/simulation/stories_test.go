package simulation_test

import (
	"context"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/testkit/keys"
)

// stories are several troubles in a row, each of which brings one rule into play.
var stories = map[string]script{
	// usurper: a second process takes the id over while the first is still inside its lease, and
	// does not know.
	"usurper": func(w *world, e episode) []action {
		var twin *process
		begin := func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			twin = w.newProcess(w.plan.ids[e.who[0]], true)
		}
		end := func() {
			if e.n%2 == 0 {
				w.stopWhile(twin, func() bool { return true })
			} else {
				w.kill(twin)
			}
		}
		acts := w.both(e, func(p *process) { w.destroy(p); p.link.set(e.how) }, func(p *process) {
			p.link.unset(e.how)
		})
		acts = append(acts, action{e.at + 200*time.Millisecond, begin},
			action{e.at + 2500*time.Millisecond, func() { w.addWork(2 * len(w.plan.ids)) }},
			action{e.at + time.Duration(2000+e.n%4000)*time.Millisecond, func() {
				if e.n%3 == 0 { // and a third right after it
					end()
					begin()
				}
			}},
			action{e.at + time.Duration(4000+e.n%40000)*time.Millisecond, func() { end() }})
		return acts
	},
	// unseen: a member is back before its grace is over, and neither it nor the leader has eyes.
	"unseen": func(w *world, e episode) []action {
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
	},
	// lost-again: a member is lost, is back just when the leader dies, and is lost again with its
	// lease valid.
	"lost-again": func(w *world, e episode) []action {
		id := w.plan.ids[e.who[0]]
		var back, leader *process
		lost := time.Duration(3000+e.n%6000) * time.Millisecond
		return []action{
			{e.at, func() {
				if p := w.proc(id); p != nil && p != w.leader() {
					w.destroy(p)
					w.kill(p)
				}
			}},
			{e.at + lost, func() {
				if leader = w.leader(); leader != nil && leader.id != id {
					w.destroy(leader)
					w.kill(leader)
				}
				back = w.start(id)
			}},
			{e.at + lost + 4*time.Second, func() {
				if back != nil {
					w.destroy(back)
					back.link.set("silent")
				}
			}},
			{e.at + lost + e.dur, func() {
				if back != nil {
					back.link.unset("silent")
				}
				if leader != nil {
					w.start(leader.id)
				}
			}},
		}
	},
	// boomerang: an item goes and comes back while its first release is still under way.
	"boomerang": func(w *world, e episode) []action {
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
	},
	// changeling: a member has a new session, and the leader grants to the old one.
	"changeling": func(w *world, e episode) []action {
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
	},
	// elder-key: a stranger gives an item that is still to come to nobody. The leader does not see
	// that and gives it to a member; the next leader sees both keys.
	"elder-key": func(w *world, e episode) []action {
		var leader *process
		return []action{
			{e.at, func() {
				now := time.Now()
				w.unfair(now, now.Add(e.dur+w.plan.settings.longest()), "a stranger's elder key")
				w.strangerSets(fmt.Sprintf("assignments/ghost%d/w%d", e.n, w.nextItem+1),
					[]byte("{}"), 0)
				w.addWork(1)
			}},
			{e.at + 5*time.Second, func() {
				if leader = w.leader(); leader != nil {
					w.kill(leader)
				}
			}},
			{e.at + e.dur, func() {
				if leader != nil {
					w.start(leader.id)
				}
			}},
		}
	},
	// recall: an item is to be given up, is called back while its work stops, and its member loses
	// sight.
	"recall": func(w *world, e episode) []action {
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
	},
	// stray: the leader's plan is under way for long, while others come and somebody else may lead.
	"stray": func(w *world, e episode) []action {
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
			{e.at + 8*time.Second + time.Duration(300+e.n%3000)*time.Millisecond, func() {
				w.start(id)
			}},
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
	},
}

// pin orders that an item is to be run by a member, as an operator; unpin takes it back. Who tries
// again gives up when he has ordered something else meanwhile.
func (w *world) pin(item, member string) { w.order(item, member) }

func (w *world) unpin(item string) { w.order(item, "") }

func (w *world) order(item, member string) {
	w.orders++
	mine := w.orders
	w.pins[item] = mine
	key := w.user.Keys().Pin(item)
	w.retry(func(ctx context.Context) error {
		switch {
		case w.pins[item] != mine:
			return nil
		case member == "":
			return keys.Delete(ctx, w.user, key)
		}
		return keys.Put(ctx, w.user, key, []byte(member), 0)
	})
}
