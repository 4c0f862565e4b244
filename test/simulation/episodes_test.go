package simulation_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// action is one moment of an episode.
type action struct {
	at time.Duration
	do func()
}

// misfortune plays the episodes, and ends when the last fault is over.
func (w *world) misfortune() {
	var actions []action
	begin := time.Now()
	for i, e := range w.plan.episodes {
		if !w.plan.plays(i) {
			continue
		}
		acts := w.acts(e)
		actions = append(actions, acts...)
		if !fair[e.kind] {
			at := func(a, b action) int { return cmp.Compare(a.at, b.at) }
			w.unfair(begin.Add(slices.MinFunc(acts, at).at), begin.Add(slices.MaxFunc(acts, at).at),
				fmt.Sprintf("episode %d, %s,", i, e.kind))
		}
	}
	if w.plan.settings.line > 0 {
		w.unfair(begin, begin.Add(forGood), "a thin line")
	}
	if w.plan.losesWrites() {
		for at := 2 * time.Second; at < w.plan.span; at += 4 * time.Second {
			actions = append(actions, action{at, w.snapshot})
		}
	}
	slices.SortStableFunc(actions, func(a, b action) int { return cmp.Compare(a.at, b.at) })
	w.actions, w.begin = actions, begin
	if after := w.plan.settings.noReports; after != 0 {
		w.noReports.Store(begin.Add(after).UnixNano())
	}
	w.playUntil(begin.Add(w.plan.span))
	for len(w.actions) > 0 { // what was to happen after the span
		w.playUntil(w.begin.Add(w.actions[0].at))
	}
}

// playUntil plays the actions that are due until then. One that has to wait for Consul plays those
// of others meanwhile: else a user who tries again would put off the end of the election that keeps
// him waiting.
func (w *world) playUntil(end time.Time) {
	for len(w.actions) > 0 && !w.begin.Add(w.actions[0].at).After(end) {
		a := w.actions[0]
		w.actions = w.actions[1:]
		time.Sleep(time.Until(w.begin.Add(a.at)))
		a.do()
	}
	time.Sleep(time.Until(end))
}

// restoreOrder ends all faults, and starts members again until enough live.
func (w *world) restoreOrder() {
	w.calm.Store(true)
	close(w.calmed)
	w.consul.ElectionEnd()
	for _, a := range w.agents {
		a.Start()
	}
	w.replaceHung()
	for _, id := range slices.Sorted(maps.Keys(w.drains)) {
		w.undrain(id) // a Consul that was restored may have the order again
	}
	for _, item := range slices.Sorted(maps.Keys(w.wishes)) {
		w.prefer(item, "") // likewise; and what is wished for may be uneven
	}
	for i, id := range w.plan.ids {
		if w.left[id] && i > 0 {
			continue
		}
		if p := w.proc(id); p == nil || p.isLeaving() {
			ending := w.ending(id)
			w.later(func() {
				for _, p := range ending {
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
	w.letGo(false)
	w.release()
}

// lastFailures is how much later than it failed an item may be given up: its work takes its time to
// end, its member publishes that every 2 s, and the leader reads it.
const lastFailures = 5 * time.Second

// release has all work started once more where it may have been given up: nothing fails any more,
// and what is quarantined is to run.
func (w *world) release() {
	if w.plan.settings.restarts == 0 {
		return
	}
	w.mu.Lock()
	items := slices.Sorted(maps.Keys(w.work))
	w.mu.Unlock()
	w.retry(func(ctx context.Context) error {
		_, holders, _, err := w.operator.Look(ctx)
		if err != nil {
			return err
		}
		// A Consul that was restored may have items again that were removed.
		all := append(slices.Clone(items), holders.Quarantined...)
		slices.Sort(all)
		return w.operator.Restart(ctx, slices.Compact(all)...)
	})
}

// replaceHung has a member that went for good come back where none is left but one of which an
// actor hangs: somebody has to take its items over.
func (w *world) replaceHung() {
	if w.hanging == nil {
		return
	}
	for i, id := range w.plan.ids {
		if id != w.hanging.id && (i == 0 || !w.left[id]) {
			return
		}
	}
	for _, id := range w.plan.ids {
		if id != w.hanging.id {
			delete(w.left, id)
			return
		}
	}
}

// ending are the processes of a member that end by now: it, and its twins, whose stories are over.
// One that is started beside them would find its id taken by a living process, and end itself, as
// it should.
func (w *world) ending(id string) []*process {
	w.mu.Lock()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	return slices.DeleteFunc(all, func(p *process) bool {
		return p.id != id || !p.twin && !p.isLeaving()
	})
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
		if p := w.place(i); p != nil {
			f(p)
		}
	}
}

// place is the process at a place of the list of members, or the one that leads; nil: it does not
// run.
func (w *world) place(i int) *process {
	if i == whoLeads {
		return w.leader()
	}
	return w.proc(w.plan.ids[i])
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

// script says what an episode of a kind does, moment by moment.
type script func(w *world, e episode) []action

// acts are what an episode does, moment by moment.
func (w *world) acts(e episode) []action {
	play, ok := scriptOf(e.kind)
	if !ok {
		panic("no such episode: " + e.kind)
	}
	return play(w, e)
}

// scriptOf is the script of a kind of episodes.
func scriptOf(kind string) (script, bool) {
	if lasting[kind] != nil {
		return nothing, true
	}
	if same, ok := alike[kind]; ok {
		kind = same
	}
	for _, scripts := range []map[string]script{lines, troubles, still, servers, stories, strangers,
		churn, hosts, operators} {
		if play, ok := scripts[kind]; ok {
			return play, true
		}
	}
	return nil, false
}

// alike are kinds that are played as others are.
var alike = map[string]string{"drizzle": "storm", "denials": "storm", "blip": "cut",
	"join": "leave"}

// both begins something at the members that an episode is about, and ends it at those that it began
// at.
func (w *world) both(e episode, begin, end func(*process)) []action {
	var hit []*process // the processes that were hit are those that are mended
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

// cut breaks the links of the members that an episode is about, for as long as it lasts.
func (w *world) cut(e episode, how string) []action {
	return w.both(e, func(p *process) { p.link.set(how) }, func(p *process) { p.link.unset(how) })
}

func once(e episode, f func()) []action { return []action{{e.at, f}} }
