package leader

import (
	"cmp"
	"time"
)

// What the assigner drafts from, and within which limits.

// overrideWindow: an override counts for the first draft after it, however long what that is made
// of takes to read. Beyond that, an override that arrives up to this long before the brake still
// releases it. coordd work rm writes both keys, and the two watches may report them in either
// order.
const overrideWindow = 10 * time.Second

func (a *Assigner) snapshot(now time.Time) *snapshot {
	// A registration changes record and ack. Where the ack's watch was first to wake the assigner,
	// or a state changed while something was read, its change has not been taken yet.
	if a.heed() {
		now = a.quiet
	}
	w := a.workload.Get()
	if a.index == nil || a.indexOf != w.Index {
		a.index = make(map[string]int32, w.Items.Len())
		i := int32(0)
		for id := range w.Items.IDs() {
			a.index[id] = i
			i++
		}
		a.indexOf = w.Index
	}
	control := a.control.Get()
	spent := a.spent != 0 && a.spent == control.Override
	override := !spent && !control.OverrideAt.IsZero() &&
		(!control.OverrideAt.Equal(a.overrideSeen) ||
			now.Sub(control.OverrideAt) < overrideWindow ||
			!a.brakeAt.IsZero() && control.OverrideAt.After(a.brakeAt.Add(-overrideWindow)))
	keep := a.braked != brakeOff && !control.Freeze
	peak := a.sizes.see(now, now.Add(-4*a.Merge), w.Items.Len(), keep)
	if override {
		a.sizes.forget()
		peak = w.Items.Len()
	}
	return &snapshot{
		now: now, members: a.members.Get().Items, workload: w.Items, index: a.index,
		control:  control,
		assigned: a.assigned, absent: a.absent, build: a.build, origin: a.origin,
		zones: a.zones.see(a.members.Get(), a.absent), notes: a.notes, failing: a.failing,
		place:   a.first.IsZero() || !now.Before(a.placeAt()),
		balance: !now.Before(a.quiet.Add(a.LeaderSoak)),
		budget:  a.budget(w.Items.Len()), cooling: a.cooling(now), releases: a.releases,
		stopping: a.StopTimeout, hold: a.BrakeHold, braked: a.braked, peak: peak,
		override: override, overridden: a.overridden,
	}
}

// budget is how many of so many items may be on the move at one time.
func (a *Assigner) budget(items int) int {
	n := a.MoveBudget
	if a.MoveBudgetShare > 0 {
		share := int(a.MoveBudgetShare * float64(items))
		n = min(cmp.Or(n, share), share)
	}
	return max(1, n)
}

// cooling says until when items stay where they were placed.
func (a *Assigner) cooling(now time.Time) map[string]time.Time {
	until := make(map[string]time.Time, len(a.placed))
	for item, at := range a.placed {
		if end := at.Add(a.ItemCooldown); now.Before(end) {
			until[item] = end
		} else {
			delete(a.placed, item)
		}
	}
	return until
}
