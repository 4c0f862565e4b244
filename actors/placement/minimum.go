package placement

import (
	"cmp"
	"math"
	"slices"
)

// Minimum counts the items that any plan has to take from an owner to come to what [Compute]
// guarantees, with the pinned items placed as in p, the plan for these members and items. It is
// counted from the loads alone, without the planner: the plan's certificate.
//
// When all weights are equal it is exact: no plan moves fewer, and Compute moves as many. When
// weights differ it is a lower bound, without moves for balance, and exact is false.
func Minimum(members []Member, items []Item, p Outcome) (moves int, exact bool) {
	c := takeCensus(members, items)
	pinned := make([]uint64, len(members)) // weight of the pinned items in the end
	moved := make(map[int32]Place, len(p.Moves))
	for _, move := range p.Moves {
		moved[move.Item] = move.To
	}
	held := make([][]uint64, len(members)) // weights of the unpinned items of each member now
	var unpinned int64
	for i := range items {
		it := &items[i]
		if it.Pin == None {
			unpinned++
			if o := c.owner(it); o != none {
				held[o] = append(held[o], it.weight())
			}
			continue
		}
		to, goes := moved[int32(i)]
		if !goes {
			to = it.Owner
		} else if c.owner(it) != none {
			moves++
		}
		if t := to.index(); uint32(t) < uint32(len(members)) {
			pinned[t] += it.weight()
		}
	}
	if !c.uniform {
		for j := range members {
			moves += c.overfull(held[j], pinned[j], c.limits[j])
		}
		return moves, false
	}
	return moves + c.level(held, pinned, unpinned), true
}

// overfull counts how many of the unpinned items have to leave a member to get below its limit: the
// heaviest ones.
func (c *census) overfull(held []uint64, pinned, limit uint64) int {
	sum := pinned
	for _, w := range held {
		sum += w
	}
	slices.SortFunc(held, func(x, y uint64) int { return cmp.Compare(y, x) })
	n := 0
	for n < len(held) && sum > limit {
		sum -= held[n]
		n++
	}
	return n
}

// level shares out the unpinned items as water finds its level, above the pinned ones and below the
// limits, and counts what members hold above their share of it. What is left over when all have
// reached the level, less than one for each, goes to members that hold more than their share. In a
// rollout members of the newest version may keep twice as much.
func (c *census) level(held [][]uint64, pinned []uint64, unpinned int64) int {
	share := func(j int, level int64) int64 {
		base := int64(pinned[j] / c.unit)
		room := int64(math.MaxInt64)
		if c.limits[j] != math.MaxUint64 {
			room = int64((c.limits[j] - min(c.limits[j], pinned[j])) / c.unit)
		}
		return min(max(0, level-base), room)
	}
	filled := func(level int64) int64 {
		sum := int64(0)
		for j := range held {
			sum += share(j, level)
		}
		return sum
	}
	low, high := int64(0), unpinned // the level is at least low, and above high all are full
	for _, p := range pinned {
		high = max(high, int64(p/c.unit)+unpinned)
	}
	for low < high {
		if middle := low + (high-low+1)/2; filled(middle) <= unpinned {
			low = middle
		} else {
			high = middle - 1
		}
	}
	moves, spare := 0, unpinned-filled(low)
	saved := int64(0)
	for j := range held {
		newest := c.rollout && c.members[j].Newest
		level := low
		if newest {
			level = 2 * (low + min(spare, 1))
		}
		above := int64(len(held[j])) - share(j, level)
		if above <= 0 {
			continue
		}
		moves += int(above)
		if !newest && share(j, low+1) > share(j, low) {
			saved++
		}
	}
	return moves - int(min(spare, saved))
}
