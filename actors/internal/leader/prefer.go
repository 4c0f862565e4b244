package leader

import (
	"cmp"
	"slices"

	"github.com/coordd/coordd/actors/placement"
)

// prefer pins items, for the planner, to the members that operators prefer for them: those that
// take items, have room beside the items that must be there, and are not where the work has failed.
// An item that runs elsewhere goes there after the leader soak, so that a member which comes and
// goes does not draw it to and fro.
func (in *inputs) prefer(b *board, p *plan) {
	if in.control.Preferred.Len() == 0 {
		return
	}
	used := b.pinned() // by items that must be there
	var wishes []int
	to := func(i int) placement.Place {
		id, _ := in.control.Preferred.Get(b.items[i].ID)
		return b.places[id] // None: it is not there
	}
	for i, item := range b.items {
		if item.Pin == placement.None && to(i) != placement.None {
			wishes = append(wishes, i)
		}
	}
	elsewhere := func(i int) int { // those that are there already keep their room
		if b.items[i].Owner == to(i) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(wishes, func(x, y int) int {
		return cmp.Compare(elsewhere(x), elsewhere(y))
	})
	for _, i := range wishes {
		item, at := &b.items[i], to(i)
		j := at.Member()
		if !fits(b.members[j], used[j], weight(*item)) ||
			in.failedAt(item.ID, b.members[j].ID, in.countingFailures(item.ID)) {
			continue
		}
		if item.Owner != placement.None && item.Owner != at && !item.Leaving && !in.balance {
			p.waiting = true
			continue
		}
		used[j] += weight(*item)
		if item.Pin = at; item.Owner != at {
			b.wishes = append(b.wishes, i)
		}
	}
}
