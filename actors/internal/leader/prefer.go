package leader

import (
	"cmp"
	"slices"

	"github.com/coordd/coordd/actors/placement"
)

// reason is the planner's reason for a move in words. What the leader itself has pinned for the
// planner was preferred there by an operator, or has failed elsewhere.
func (s *snapshot) reason(r placement.Reason, item string) string {
	switch {
	case r != placement.Pinned || s.control.Pins.Has(item):
		return r.String()
	case s.control.Preferred.Has(item):
		return "preferred"
	}
	return reasonFailing
}

// prefer pins items, for the planner, to the members that operators prefer for them: those that
// take items, have room beside the items that must be there, and are not where the work has failed.
// An item that runs elsewhere goes there after the leader soak, so that a member which comes and
// goes does not draw it to and fro. All others are planned as if nobody had said anything. Where an
// item would have no place then, no wish counts: see compute.
func (s *snapshot) prefer(d *draft, sorted *sorted) {
	if s.control.Preferred.Len() == 0 {
		return
	}
	places := make(map[string]int, len(sorted.members))
	for j, m := range sorted.members {
		places[m.ID] = j
	}
	used := sorted.pinned() // by items that must be there
	var wishes []int
	for i, item := range sorted.items {
		if item.Pin == placement.None && s.control.Preferred.Has(item.ID) {
			wishes = append(wishes, i)
		}
	}
	there := func(i int) int { // those that are there already keep their room
		to, _ := s.control.Preferred.Get(sorted.items[i].ID)
		if j, ok := places[to]; ok && sorted.items[i].Owner == placement.At(j) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(wishes, func(x, y int) int { return cmp.Compare(there(x), there(y)) })
	for _, i := range wishes {
		item := &sorted.items[i]
		to, _ := s.control.Preferred.Get(item.ID)
		j, here := places[to]
		if !here {
			continue
		}
		m := sorted.members[j]
		if m.Drain || m.Capacity != 0 && used[j]+weight(*item) > m.Capacity ||
			s.failedAt(to, s.notes[item.ID].fresh(s.now)) {
			continue
		}
		if item.Owner != placement.None && item.Owner != placement.At(j) && !item.Leaving &&
			!s.balance {
			d.waiting = true
			continue
		}
		used[j] += weight(*item)
		item.Pin = placement.At(j)
		if item.Owner != item.Pin {
			sorted.wishes = append(sorted.wishes, i)
		}
	}
}
