package simulation_test

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// When all is well and nothing changes, members rest: what is asked for again and again without an
// end is seen here. And one of them is at its duty.

// restFor is how long before the end of the bound that is looked at.
const restFor = 30 * time.Second

// restMost is the most that a process sends meanwhile: renewals, each with its confirmation, every
// third of a TTL, and what its polls and the leader's notes come to, with room to spare. Whoever
// asks for something every half second is above it. Reports to its health check do not count.
const restMost = 75

// resting counts what each process sends from now until the function that it returns is called.
// Hosts that write config values never rest.
func (w *world) resting() (judge func()) {
	before := w.sent()
	return func() {
		after := w.sent()
		for _, name := range slices.Sorted(maps.Keys(before)) {
			n := after[name] - before[name]
			if n > restMost && after[name] != 0 && w.plan.settings.config == "" &&
				w.hanging == nil {
				w.fail("HOT: %s has sent %d requests in %v while nothing happened", name, n,
					restFor)
			}
		}
	}
}

// sent is how many requests each process has sent.
func (w *world) sent() map[string]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]uint64{}
	for _, p := range w.procs {
		p.link.mu.Lock()
		n[p.name()] = p.link.n - p.link.reports
		p.link.mu.Unlock()
	}
	return n
}

// judgeDuty wants one Lead function at work when all has to be well.
func (w *world) judgeDuty() {
	if w.hanging != nil {
		return
	}
	w.mu.Lock()
	duties := slices.Clone(w.duties)
	w.mu.Unlock()
	var names []string
	for _, d := range duties {
		// one that stood still in the middle of its duty, and kept its lease, is at it
		if d.p.mu.Lock(); !d.p.dead {
			names = append(names, d.p.name())
		}
		d.p.mu.Unlock()
	}
	if len(names) != 1 {
		w.fail("Lead: %d members are at their duty %v after the faults: %s", len(names), w.bound,
			strings.Join(names, " and "))
	}
}
