package placement

import (
	"slices"
	"sort"
)

// share is what the even plan decides about one member. All counts are of unpinned items.
type share struct {
	ask   int64 // how many more of its items have to leave than are leaving already
	leave int64 // how many of those that are leaving have to go on doing so
	grant int64 // how many free items it gets
	take  int64 // how many it gets from those that leave others
}

// even plans for items of equal weight, by counting.
//
// The level to which all members are filled depends on the members' limits, the pinned items and
// the total only, and none of these changes while a plan is carried out. That is what makes the
// plan steady: a member's target stays what it was, and the rule for who gets one more than the
// others prefers those that have it.
func (c *census) even() Outcome {
	plan := Outcome{Loads: make([]uint64, len(c.members))}
	pins := c.settlePins(plan.Loads)
	shares, grants, leavers := c.shares(plan.Loads)
	for j, s := range shares {
		plan.Loads[j] += uint64(c.held[j].all()-s.ask-s.leave+s.grant+s.take) * c.unit
	}
	decisions := c.free + leavers + int64(len(pins))
	if decisions == 0 {
		return plan
	}
	for _, p := range pins {
		switch o := c.owner(&c.items[p.item]); {
		case o == p.to:
		case o == none:
			grants++
		default:
			leavers++
		}
	}
	c.emitEven(&plan, shares, pins, grants, leavers, decisions)
	return plan
}

// shares fixes the target of every member and how it gets there, and counts the free items that
// will be granted and the held ones that leave. pinned is the weight of the pinned items on each
// member.
func (c *census) shares(pinned []uint64) (shares []share, grants, leavers int64) {
	m := len(c.members)
	total := c.free
	for j := range c.held {
		total += c.held[j].all()
	}
	low, high, target := make([]int64, m), make([]int64, m), make([]int64, m)
	for j := range m {
		low[j] = int64(pinned[j] / c.unit)
		high[j] = low[j] + total + 1 // no limit: more than there is
		if limit := c.limits[j] / c.unit; limit < uint64(high[j]) {
			high[j] = max(int64(limit), low[j])
		}
	}
	level, more := waterfill(low, high, total)
	for j := range m {
		target[j] = clamp(level, low[j], high[j]) - low[j]
	}
	most := level + min(more, 1)
	c.giveOneMore(low, high, target, level, more)
	if c.rollout {
		c.rollOut(low, high, target, 2*most, total)
	}

	shares = make([]share, m)
	for j := range m {
		h, s := c.held[j], &shares[j]
		extra := max(h.all()-target[j], 0)
		s.leave = min(int64(h.leaving), extra)
		s.ask = extra - s.leave
		leavers += extra
		// From here on low and high bound what the member has and will have, pinned items included.
		high[j] = low[j] + target[j]
		low[j] += h.all() - extra
	}
	// Free items go to the emptiest first: the others may take long to arrive.
	level, more = waterfill(low, high, c.free)
	for j := range m {
		have := clamp(level, low[j], high[j])
		if more > 0 && low[j] <= level && level < high[j] {
			have++
			more--
		}
		shares[j].grant = have - low[j]
		shares[j].take = high[j] - have
		grants += shares[j].grant
	}
	return shares, grants, leavers
}

// giveOneMore raises the targets of so many members by one. Those that have it and were not asked to
// give it up come first, then those that can still be called back, then the others. In a rollout
// what the newest ones have changes more than this decides, so they come after all others that have
// it.
func (c *census) giveOneMore(low, high, target []int64, level, more int64) {
	m := len(target)
	for class := 0; class < 4 && more > 0; class++ {
		for j := 0; j < m && more > 0; j++ {
			if low[j] > level || high[j] <= level || target[j] > level-low[j] {
				continue
			}
			newest := c.rollout && c.members[j].Newest
			if class == 0 && (newest || int64(c.held[j].kept) <= target[j]) ||
				class == 1 && (newest || c.held[j].all() <= target[j]) ||
				class == 2 && !newest {
				continue
			}
			target[j]++
			more--
		}
	}
}

// rollOut changes the targets of a balanced plan to those of a rollout: all keep what they may.
// What is left goes to all up to half a share, then to members of the newest version up to two, the
// roof, and only then to the others, up to their targets. low and high bound what each member
// holds, pinned items included.
func (c *census) rollOut(low, high, target []int64, roof, left int64) {
	m := len(target)
	have, most, until := make([]int64, m), make([]int64, m), make([]int64, m)
	for j := range target {
		most[j] = low[j] + target[j]
		if c.members[j].Newest {
			most[j] = max(low[j], min(high[j], roof))
		}
		have[j] = min(low[j]+c.held[j].all(), most[j])
		left -= have[j] - low[j]
	}
	for pass := range 3 {
		for j := range until {
			until[j] = most[j]
			if pass == 0 {
				until[j] = max(have[j], min(most[j], roof/4))
			} else if pass == 1 && !c.members[j].Newest {
				until[j] = have[j]
			}
		}
		level, more := waterfill(have, until, left)
		for j := range have {
			to := clamp(level, have[j], until[j])
			if more > 0 && have[j] <= level && level < until[j] {
				to++
				more--
			}
			left -= to - have[j]
			have[j] = to
		}
	}
	for j := range target {
		target[j] = have[j] - low[j]
	}
}

// waterfill returns the level to which n items fill vessels that hold low already and at most high,
// and how many are left over that raise one vessel each to level+1. If n is more than what fits,
// the level is above every vessel and nothing is left over.
func waterfill(low, high []int64, n int64) (level, more int64) {
	poured := func(level int64) (sum int64) {
		for j := range low {
			sum += clamp(level, low[j], high[j]) - low[j]
		}
		return sum
	}
	top := int64(0)
	for _, h := range high {
		top = max(top, h)
	}
	if poured(top) <= n {
		return top, 0
	}
	// The lowest level that takes more than n, less one.
	level = int64(sort.Search(int(top), func(l int) bool { return poured(int64(l)) > n })) - 1
	return level, n - poured(level)
}

func clamp(x, low, high int64) int64 { return max(low, min(x, high)) }

// heldEven returns the weight that each member holds now.
func (c *census) heldEven(pins []pin) []uint64 {
	now := make([]uint64, len(c.members))
	for j, h := range c.held {
		now[j] = uint64(h.all()) * c.unit
	}
	for _, p := range pins {
		if o := c.owner(&c.items[p.item]); o != none {
			now[o] += c.unit
		}
	}
	return now
}

// emitEven turns shares into moves, in one pass over the items. Receivers are filled one after the
// other, so that the moves of one member are neighbours and can be written together.
func (c *census) emitEven(plan *Outcome, shares []share, pins []pin, grants, leavers,
	decisions int64) {
	plan.Moves = make([]Move, grants+leavers)
	granted, left := plan.Moves[:0:grants], plan.Moves[grants:grants]
	excess := c.excess(c.heldEven(pins))
	why := c.whyUnplaced()
	var toGrant, toTake int           // next receivers
	busy := make([]bool, len(shares)) // has items to give up still
	for j, s := range shares {
		busy[j] = s.ask+s.leave > 0
	}
	items := c.items
	few := c.fewDecisions(shares)
	for i := 0; decisions > 0; i++ {
		if few == nil {
			i += nextDecision(items[i:], busy)
		} else {
			for int(few[0]) < i {
				few = few[1:]
			}
			i = int(few[0])
		}
		it := &items[i]
		o := it.Owner.index()
		if it.Pin != None {
			granted, left = c.emitPinned(plan, pins[0], granted, left, excess)
			pins = pins[1:]
			decisions--
			continue
		}
		if uint(o) >= uint(len(shares)) {
			for toGrant < len(shares) && shares[toGrant].grant == 0 {
				toGrant++
			}
			if toGrant == len(shares) {
				plan.Unplaced = append(plan.Unplaced, Unplaced{Item: int32(i), Why: why})
				decisions--
				continue
			}
			s := &shares[toGrant]
			have := len(granted)
			granted = granted[:have+int(s.grant)]
			n := c.grantRun(granted[have:], i, toGrant)
			granted = granted[:have+n]
			s.grant -= int64(n)
			decisions -= int64(n)
			i += n - 1
			continue
		}
		s := &shares[o]
		goes := &s.ask
		if it.Leaving {
			goes = &s.leave
		}
		if *goes == 0 {
			continue
		}
		*goes--
		decisions--
		busy[o] = s.ask+s.leave > 0
		for toTake < len(shares) && shares[toTake].take == 0 {
			toTake++
		}
		to := none
		if toTake < len(shares) {
			to = int32(toTake)
			shares[to].take--
		} else {
			plan.Unplaced = append(plan.Unplaced, Unplaced{Item: int32(i), Why: why})
		}
		left = append(left, Move{Item: int32(i), From: it.Owner, To: Place(to + 1),
			Reason: c.reason(it, excess)})
	}
}

// fewDecisions returns the items to decide upon in ascending order, and perhaps some that stay, if
// the census knows them: when few are loose and no member has to be asked for more than one, as
// after most leaves and joins. Otherwise it returns nil.
func (c *census) fewDecisions(shares []share) []int32 {
	if len(c.loose) > maxLoose {
		return nil
	}
	few := slices.Clone(c.loose)
	for j, s := range shares {
		switch s.ask {
		case 0:
		case 1:
			few = append(few, c.held[j].sample)
		default:
			return nil
		}
	}
	slices.Sort(few)
	return few
}

// nextDecision returns how many items at the start stay where they are for certain: unpinned ones
// of members that give up nothing. Most items do, so this small loop is where the time goes.
func nextDecision(items []Item, busy []bool) int {
	for i := range items {
		it := &items[i]
		if it.Pin != None || uint(it.Owner.index()) >= uint(len(busy)) ||
			busy[it.Owner.index()] {
			return i
		}
	}
	return len(items)
}

// grantRun grants the free items from i on to one member, until out is full or one comes that is
// pinned or has an owner. It returns how many: at least one, as the caller has looked at the first.
func (c *census) grantRun(out []Move, i, to int) int {
	run := c.items[i:]
	out = out[:min(len(out), len(run))]
	members := uint(len(c.members))
	all := c.free == int64(len(c.items)) // no need to look
	for k := range out {
		if !all && (uint(run[k].Owner.index()) < members || run[k].Pin != None) {
			return k
		}
		out[k] = Move{Item: int32(i + k), To: At(to), Reason: New}
	}
	return len(out)
}

func (c *census) emitPinned(plan *Outcome, p pin, granted, left []Move, excess []uint64) (_,
	_ []Move) {
	if p.why != "" {
		plan.Unplaced = append(plan.Unplaced, Unplaced{Item: p.item, Why: p.why})
	}
	it := &c.items[p.item]
	switch o := c.owner(it); {
	case p.to == o:
	case o == none:
		granted = append(granted, Move{Item: p.item, To: Place(p.to + 1), Reason: New})
	default:
		left = append(left, Move{Item: p.item, From: it.Owner, To: Place(p.to + 1),
			Reason: c.reason(it, excess)})
	}
	return granted, left
}
