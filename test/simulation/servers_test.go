package simulation_test

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/history"
)

// servers are what befalls Consul itself.
var servers = map[string]script{
	"election": func(w *world, e episode) []action {
		return []action{{e.at, w.consul.ElectionStart}, {e.at + e.dur, w.consul.ElectionEnd}}
	},
	"restart": func(w *world, e episode) []action {
		// Its port is closed meanwhile; what it held in its log it has again.
		all := make([]int, len(w.plan.ids))
		for i := range all {
			all[i] = i
		}
		e.who = all
		acts := w.cut(e, "refused")
		acts = append(acts, action{e.at, w.consul.ElectionStart})
		if e.n%4 == 0 {
			return append(acts, action{e.at + e.dur, w.consul.ElectionEnd})
		}
		// Its log is long: until it has applied all of it, it answers from the past. Without a
		// snapshot that begins with nothing at all.
		past := w.empty
		if e.n%3 > 0 {
			acts = append(acts, action{max(0, e.at-time.Duration(e.n%40_000)*time.Millisecond),
				func() { past = w.consul.Snapshot() }})
		}
		behind := 300 + e.n%700
		if w.plan.profile != "gentle" && e.n%5 == 0 {
			behind += e.n % 15_000
		}
		return append(acts,
			action{e.at + e.dur, func() { w.consul.ElectionEndBehind(past) }},
			action{e.at + e.dur + time.Duration(behind)*time.Millisecond, w.consul.ElectionEnd})
	},
	"relapse": func(w *world, e episode) []action {
		var past devconsul.Snapshot
		begin, end := func(p *process) { p.link.set(e.how) }, func(p *process) {
			p.link.unset(e.how)
		}
		// just before the restart: the leader has heard of it, and they have not
		if e.how == "destroyed" {
			e.dur = time.Duration(50+e.n%3000) * time.Millisecond
			begin, end = func(p *process) {
				p.link.set("no-polls")
				w.destroy(p)
			}, func(p *process) { p.link.unset("no-polls") }
		}
		acts := append([]action{{e.at, func() { past = w.consul.Snapshot() }}},
			w.both(e, begin, end)...)
		return append(acts,
			action{e.at + e.dur, w.consul.ElectionStart},
			action{e.at + e.dur + time.Duration(e.n%3)*100*time.Millisecond, func() {
				w.consul.ElectionEndBehind(past)
			}},
			action{e.at + e.dur + time.Duration(300+e.n%20_000)*time.Millisecond,
				w.consul.ElectionEnd})
	},
	"restore": func(w *world, e episode) []action {
		return once(e, func() { w.restore(e.dur) })
	},
	"reset": func(w *world, e episode) []action {
		return []action{
			{e.at, w.reset},
			{e.at + e.dur, func() {
				for id := range w.work {
					w.putWork(id)
				}
			}},
		}
	},
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
		if w.ghostly(e.Key) {
			continue
		}
		w.rec.Add(history.Event{Verb: history.Set, Index: e.ModifyIndex, Key: w.short(e.Key),
			Value: string(e.Value)})
	}
}

// overrideBrake says that what is gone is meant, as an operator does who sees the brake: a Consul
// that has lost most of the workload leaves nobody else to say so.
func (w *world) overrideBrake() {
	leader := w.leader()
	if leader == nil || !w.plan.losesWrites() || leader.member.Distribution().Get().Brake == "" {
		return
	}
	w.retry(func(ctx context.Context) error { return w.operator.Override(ctx) })
}
