package simulation_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// operators are those who order members to be emptied, and take it back; and who change the
// workload beside failing work.
var operators = map[string]script{
	// drain is of the one that leads, mostly. Its Lead may take its time to end. While that lasts
	// new work comes, which somebody has to give out.
	"drain": func(w *world, e episode) []action {
		var p *process
		return []action{
			{e.at, func() {
				if p = w.place(e.who[0]); p == nil {
					return
				}
				if w.plan.profile != "drained" { // others may be away, or drained as well
					now := time.Now()
					w.unfair(now, now.Add(e.dur), "a drain of "+p.id)
				}
				if e.how == "slow" {
					p.slowLead(time.Duration(1+e.n%14_000) * time.Millisecond)
				}
				deadline := time.Time{}
				if e.n%3 == 0 {
					deadline = time.Now().Add(time.Duration(e.n%10_000) * time.Millisecond)
				}
				w.drain(p.id, deadline)
			}},
			{e.at + 700*time.Millisecond, func() { w.addWork(1 + e.n%3) }},
			{e.at + e.dur, func() {
				if p != nil {
					w.undrain(p.id)
					p.slowLead(0)
				}
			}},
		}
	},
	// wish is of some items at one member, wherever they are. Nothing is excused for its sake: no
	// item is without an owner longer than for a move.
	"wish": func(w *world, e episode) []action {
		var items []string
		return []action{
			{e.at, func() {
				r := rand.New(rand.NewPCG(w.plan.seed, uint64(e.n)))
				for range min(1+e.n%5, len(w.work)) {
					items = append(items, w.anyItem(r))
					w.prefer(items[len(items)-1], w.plan.ids[e.who[0]])
				}
			}},
			{e.at + e.dur, func() {
				for _, item := range items {
					w.prefer(item, "")
				}
			}},
		}
	},
	// remake removes items that are quarantined and adds them again in the same moment: they are
	// others of the same name, and are to run.
	"remake": func(w *world, e episode) []action {
		return once(e, func() {
			n := 1 + e.n%3
			for _, id := range slices.Sorted(maps.Keys(w.work)) {
				x, noted := w.entry("quarantine/" + id)
				q, err := protocol.ParseQuarantine(x.Value)
				if !noted || err != nil || q.Since == 0 {
					continue
				}
				if n--; n < 0 {
					return
				}
				w.retry(func(ctx context.Context) error {
					return keys.Delete(ctx, w.user, w.user.Keys().WorkItem(id))
				})
				w.putWork(id)
			}
		})
	},
}

// slowLead is how long the Lead of the process takes to end.
func (p *process) slowLead(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = d
}

func (w *world) drain(id string, deadline time.Time) {
	w.orders++
	mine := w.orders
	w.drains[id] = mine
	w.retry(func(ctx context.Context) error {
		if w.drains[id] != mine { // he has ordered something else meanwhile
			return nil
		}
		return w.operator.DrainBy(ctx, id, deadline)
	})
}

func (w *world) undrain(id string) {
	w.orders++
	mine := w.orders
	w.drains[id] = mine
	w.retry(func(ctx context.Context) error {
		if w.drains[id] != mine {
			return nil
		}
		return w.operator.Undrain(ctx, id)
	})
}

// prefer orders that an item is to be run by a member when it can; empty: by any.
func (w *world) prefer(item, member string) {
	w.orders++
	mine := w.orders
	w.wishes[item] = mine
	w.retry(func(ctx context.Context) error {
		switch {
		case w.wishes[item] != mine:
			return nil
		case member == "":
			return keys.Delete(ctx, w.user, w.user.Keys().Prefer(item))
		}
		return keys.Put(ctx, w.user, w.user.Keys().Prefer(item), []byte(member), 0)
	})
}

// wished draws, by dice of its own, wishes where work fails.
func (p *plan) wished() {
	r := rand.New(rand.NewPCG(p.seed, 41))
	if p.profile != "sick" {
		return
	}
	for range r.IntN(4) {
		p.episodes = append(p.episodes, episode{kind: "wish", who: []int{r.IntN(len(p.ids))},
			at:  time.Duration(r.Int64N(int64(p.span))),
			dur: 5*time.Second + time.Duration(r.Int64N(int64(time.Minute))), n: r.IntN(1 << 20)})
	}
}

// remade draws, by dice of its own, items that are made anew where work fails.
func (p *plan) remade() {
	r := rand.New(rand.NewPCG(p.seed, 42))
	if p.profile != "sick" && p.profile != "remade" {
		return
	}
	for range 1 + r.IntN(4) {
		p.episodes = append(p.episodes, episode{kind: "remake",
			at: time.Duration(r.Int64N(int64(p.span))), n: r.IntN(1 << 20)})
	}
}

// drained draws, by dice of its own, drains of those who lead.
func (p *plan) drained() {
	r := rand.New(rand.NewPCG(p.seed, 40))
	if p.profile != "hard" && p.profile != "forgetful" && p.profile != "config" ||
		r.IntN(4) != 0 {
		return
	}
	for range 1 + r.IntN(2) {
		p.episodes = append(p.episodes, p.drainBy(r))
	}
}

func (p *plan) drainBy(r *rand.Rand) episode {
	who := []int{whoLeads}
	if r.IntN(4) == 0 {
		who = []int{r.IntN(len(p.ids))}
	}
	return episode{kind: "drain", who: who, how: []string{"", "slow"}[r.IntN(2)],
		at:  time.Duration(r.Int64N(int64(p.span))),
		dur: 5*time.Second + time.Duration(r.Int64N(int64(30*time.Second))), n: r.IntN(1 << 20)}
}

// oneByOne has drains come one after the other, so that there is always a member to take the items.
func (p *plan) oneByOne() {
	r := rand.New(rand.NewPCG(p.seed, 40))
	at := 15 * time.Second
	for i, e := range p.episodes {
		if e.kind == "drain" {
			p.episodes[i] = p.drainBy(r)
			p.episodes[i].at = at
			at += p.episodes[i].dur + 15*time.Second
		}
	}
	p.span = max(p.span, at)
	slices.SortStableFunc(p.episodes, func(a, b episode) int { return int(a.at - b.at) })
}
