package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/hashicorp/consul/api"
)

// churn is what goes on while somebody is waited for: none of it may make the wait longer.
var churn = map[string]script{
	// churn replaces items all the time.
	"churn": func(w *world, e episode) []action {
		many := 1 + e.n%3
		var acts []action
		for i, at := range e.ticks(1500, 4500) {
			acts = append(acts, action{at, func() {
				for k := range many {
					name := fmt.Sprintf("c%d-%d-", e.n, k)
					w.replace(name+strconv.Itoa(i-1), name+strconv.Itoa(i))
				}
			}})
		}
		return acts
	},
	// leaders come and go.
	"leaders": func(w *world, e episode) []action {
		var acts []action
		var gone []string
		back := func() {
			gone = slices.DeleteFunc(gone, func(id string) bool { return w.start(id) != nil })
		}
		for i, at := range e.ticks(1000, 8000) {
			acts = append(acts, action{at, func() {
				p := w.leader()
				if p == nil {
					return
				}
				gone = append(gone, p.id)
				if e.how == "kill" || e.how == "mixed" && i%2 == 1 {
					w.kill(p)
				} else {
					w.stop(p)
				}
			}}, action{at + 2*time.Second, back})
		}
		return append(acts, action{e.at + e.dur + 3*time.Second, back})
	},
	// receivers die just before a lost member's item comes to them.
	"receivers": func(w *world, e episode) []action {
		return []action{
			{e.at, func() { w.ambush.Store(int32(1 + e.n%3)) }},
			{e.at + e.dur, func() {
				w.ambush.Store(0)
				for _, id := range w.ambushed() {
					w.start(id)
				}
			}},
		}
	},
	// touch is a stranger who writes to the leader key: each time the leader takes a new epoch.
	"touch": func(w *world, e episode) []action {
		var acts []action
		for i, at := range e.ticks(1000, 3000) {
			acts = append(acts, action{at, func() { w.touch(uint64(e.n + i)) }})
		}
		return acts
	},
}

// ticks are the moments of an episode at which it does something: from so many to so many
// milliseconds apart.
func (e episode) ticks(least, most int) (at []time.Duration) {
	step := time.Duration(least+e.n%(most-least)) * time.Millisecond
	for d := time.Duration(0); d <= e.dur; d += step {
		at = append(at, e.at+d)
	}
	return at
}

// beside draws what goes on while somebody is waited for, as a rule of so many percent.
func (p *plan) beside(percent int) {
	r := rand.New(rand.NewPCG(p.seed, 20)) // dice of its own: the others fall as they did
	for _, e := range slices.Clone(p.episodes) {
		switch e.kind {
		case "kill", "takeover", "cut", "freeze", "destroy", "blind", "usurper", "leave",
			"lost-again", "orphan":
		default:
			continue
		}
		x := episode{
			kind: []string{"churn", "churn", "leaders", "receivers", "touch"}[r.IntN(5)],
			n:    r.IntN(1 << 20),
			at:   e.at + time.Duration(r.IntN(5000))*time.Millisecond,
			dur:  time.Duration(20_000+r.IntN(20_000)) * time.Millisecond,
			how:  []string{"stop", "stop", "kill", "mixed"}[r.IntN(4)],
		}
		if x.kind != "leaders" {
			x.how = ""
		}
		if r.IntN(100) < percent {
			p.episodes = append(p.episodes, x)
		}
	}
}

// replace puts a new item into the workload, and takes an old one out of it, as coordd work rm
// does. Both are tried once: the next tick may do better.
func (w *world) replace(old, new string) {
	ctx := context.Background()
	if keys.Put(ctx, w.user, w.user.Keys().WorkItem(new), []byte(new), 0) != nil {
		return
	}
	w.items.Add(1)
	w.work[new] = true
	if w.work[old] && w.operator.RemoveWork(ctx, old) == nil {
		delete(w.work, old)
	}
}

// touch changes the leader key and leaves it to whom it belongs.
func (w *world) touch(flags uint64) {
	for _, x := range w.consul.Dump().Entries {
		if x.Key == w.root+"leader" {
			// the leader's own next epoch may have come to the same, and what changes nothing moves
			// no index
			if flags == x.Flags {
				flags += 1 << 32
			}
			op := api.KVTxnOp{Verb: api.KVCAS, Key: x.Key, Value: x.Value, Flags: flags}
			op.Index = x.ModifyIndex
			w.stranger(&api.TxnOp{KV: &op})
		}
	}
}

// strike kills the receiver of a take-over that is about to arrive, if one lies in wait for it. It
// is not the leader itself.
func (w *world) strike(s *sender) {
	if s.epoch == 0 || w.ambush.Load() == 0 || !slices.ContainsFunc(s.ops, func(op txnOp) bool {
		return op.KV.Verb == "delete-cas" && strings.HasPrefix(op.KV.Key, w.root+"assignments/")
	}) {
		return
	}
	for _, op := range s.ops {
		id, ok := strings.CutPrefix(op.KV.Key, w.root+"members/")
		p := w.proc(id)
		if !ok || op.KV.Verb != "check-session" || p == nil || p == w.leader() {
			continue
		}
		if w.ambush.Add(-1) >= 0 {
			w.destroy(p)
			w.kill(p)
			w.mu.Lock()
			w.struck = append(w.struck, id)
			w.mu.Unlock()
			return
		}
	}
}

// ambushed are the members that were struck.
func (w *world) ambushed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := w.struck
	w.struck = nil
	return ids
}
