package placement

import (
	"cmp"
	"slices"
	"strings"
)

// GroupSeparator ends the name of a group in the ID of an item: "shard7:a" and "shard7:b" are of
// one group. Items without it are of none.
const GroupSeparator = ":"

// Preference says what an item moves to its target for, rather than to another one.
type Preference uint8

// The preferences.
const (
	Stay   Preference = iota + 1 // it stays in its zone
	Spread                       // fewer items of its group are in that zone
)

// zones changes which items move within a plan, and where to. Only items of one weight change
// places, so what each member has in the end stays as it was.
type zones struct {
	*census
	of     []int32       // the zone of each member
	n      int           // zones
	group  []int32       // of each item, -1: of none; nil: there are no groups
	counts []int32       // items of each group in each zone that stay there or go there
	slots  []int32       // how many items of the weight in hand each member is to get
	left   []int32       // the same, by zone
	choice []int32       // what left was before any was given
	takers []*tournament // by zone: the members with most slots first
}

// settleZones has items stay in their zones, and spreads groups over zones.
func (c *census) settleZones(plan *Outcome) {
	if len(plan.Moves) == 0 || !slices.ContainsFunc(c.members, func(m Member) bool {
		return m.Zone != c.members[0].Zone
	}) {
		return
	}
	z := &zones{census: c, of: make([]int32, len(c.members)),
		slots: make([]int32, len(c.members))}
	names := map[string]int32{}
	for j, m := range c.members {
		if _, known := names[m.Zone]; !known {
			names[m.Zone] = int32(len(names))
		}
		z.of[j] = names[m.Zone]
	}
	z.n = len(names)
	z.left, z.choice = make([]int32, z.n), make([]int32, z.n)
	z.takers = make([]*tournament, z.n)
	for k := range z.takers {
		z.takers[k] = newTournament(len(c.members), func(a, b int32) bool {
			return z.slots[a] > z.slots[b]
		})
	}
	classes := map[uint64][]*Move{} // those that may change places
	var weights []uint64
	moving := make([]bool, len(c.items))
	for k := range plan.Moves {
		move := &plan.Moves[k]
		moving[move.Item] = true
		it := &c.items[move.Item]
		if move.To == None || it.Pin != None {
			continue
		}
		if classes[it.weight()] == nil {
			weights = append(weights, it.weight())
		}
		classes[it.weight()] = append(classes[it.weight()], move)
	}
	z.findGroups(moving)
	for _, w := range weights {
		if z.group != nil && c.uniform {
			z.exchange(classes[w], moving)
		}
		z.place(classes[w])
	}
	z.tidy(plan)
}

// tidy leaves out moves that lead nowhere, and says anew why the others are made: that depends on
// what a member has given up before.
func (z *zones) tidy(plan *Outcome) {
	plan.Moves = slices.DeleteFunc(plan.Moves, func(m Move) bool { return m.From == m.To })
	held := slices.IndexFunc(plan.Moves, func(m Move) bool { return m.From != None })
	if held < 0 {
		return
	}
	slices.SortFunc(plan.Moves[held:], func(a, b Move) int { return cmp.Compare(a.Item, b.Item) })
	now := make([]uint64, len(z.members))
	for i := range z.items {
		if o := z.owner(&z.items[i]); o != none {
			now[o] += z.items[i].weight()
		}
	}
	excess := z.excess(now)
	for k := range plan.Moves {
		if move := &plan.Moves[k]; move.From != None {
			move.Reason = z.reason(&z.items[move.Item], excess)
		}
	}
}

// findGroups numbers the groups and counts the items that stay.
func (z *zones) findGroups(moving []bool) {
	last, n := "", int32(-1)
	for i := range z.items {
		name, _, grouped := strings.Cut(z.items[i].ID, GroupSeparator)
		if z.group == nil {
			if !grouped {
				continue
			}
			z.group = slices.Repeat([]int32{none}, len(z.items))
		}
		if !grouped {
			continue
		}
		if n < 0 || name != last {
			last = name
			n++
			z.counts = append(z.counts, make([]int32, z.n)...)
		}
		z.group[i] = n
		if o := z.owner(&z.items[i]); o != none && !moving[i] {
			z.counts[int(n)*z.n+int(z.of[o])]++
		}
	}
}

// count is how many items of the group of item i are in a zone.
func (z *zones) count(i, zone int32) *int32 { return &z.counts[int(z.group[i])*z.n+int(zone)] }

// turns is in how many parts members choose what they give up, one after the other. In one part
// the first would leave those behind it without a choice: of 100 groups in three zones of two
// members 76 would be spread again after the loss of a zone, with 8 parts 96.
const turns = 8

// exchange has members that hold too much give up items of groups with several in their zone, in
// place of those that were chosen.
func (z *zones) exchange(moves []*Move, moving []bool) {
	gives := map[int32][]*Move{} // by member: what it gives and might keep
	for _, move := range moves {
		if (move.Reason == Balance || move.Reason == Capacity) && !z.items[move.Item].Leaving {
			o := move.From.index()
			gives[o] = append(gives[o], move)
			if z.group[move.Item] != none {
				*z.count(move.Item, z.of[o])++ // as if it stayed
			}
			moving[move.Item] = false
		}
	}
	if len(gives) == 0 {
		return
	}
	var candidates []int32
	for i := range z.items {
		it, o := &z.items[i], z.owner(&z.items[i])
		if it.Pin == None && !it.Leaving && z.group[i] != none && gives[o] != nil &&
			!moving[i] && *z.count(int32(i), z.of[o]) > 1 {
			candidates = append(candidates, int32(i))
		}
	}
	given := map[int32][]int32{}
	for turn := range turns {
		for _, i := range candidates {
			o := z.owner(&z.items[i])
			n := z.count(i, z.of[o])
			if *n > 1 && !moving[i] && len(given[o]) < len(gives[o])*(turn+1)/turns {
				*n--
				moving[i] = true
				given[o] = append(given[o], i)
			}
		}
	}
	// The rest are those of no group, and then those that were chosen.
	for i := range z.items {
		it, o := &z.items[i], z.owner(&z.items[i])
		if it.Pin == None && !it.Leaving && z.group[i] == none && !moving[i] &&
			len(given[o]) < len(gives[o]) {
			moving[i] = true
			given[o] = append(given[o], int32(i))
		}
	}
	z.give(gives, given, moving)
}

// give has members give up the items that they were given to give, and then those that were chosen.
func (z *zones) give(gives map[int32][]*Move, given map[int32][]int32, moving []bool) {
	for o, of := range gives {
		items := given[o]
		for _, move := range of {
			if i := move.Item; len(items) < len(of) && !moving[i] {
				*z.count(i, z.of[o])--
				moving[i] = true
				items = append(items, i)
			}
		}
		slices.Sort(items)
		for k, move := range of {
			move.Item = items[k]
		}
	}
}

// place gives the moves their targets anew, each member as many as before.
func (z *zones) place(moves []*Move) {
	for _, move := range moves {
		j := move.To.index()
		z.slots[j]++
		z.left[z.of[j]]++
		z.takers[z.of[j]].update(j, 0)
	}
	copy(z.choice, z.left)
	// Those of no group that can stay come first: the others must not take their places.
	var rest []*Move
	for _, move := range moves {
		home := z.home(move)
		if home == none || z.left[home] == 0 || z.group != nil && z.group[move.Item] != none {
			rest = append(rest, move)
			continue
		}
		z.take(move, home, home)
	}
	for _, move := range rest {
		home := z.home(move)
		z.take(move, z.best(move.Item, home), home)
	}
}

// home is the zone in which an item was, or none.
func (z *zones) home(move *Move) int32 {
	at := move.From
	if at == None {
		at = z.items[move.Item].Near
	}
	if j := at.index(); uint32(j) < uint32(len(z.members)) {
		return z.of[j]
	}
	return none
}

// best is the zone with the fewest items of the group of item i; among equals its home, and then
// that with most slots.
func (z *zones) best(i, home int32) int32 {
	best := none
	for k := range int32(z.n) {
		if z.left[k] == 0 {
			continue
		}
		if best == none {
			best = k
			continue
		}
		n := 0
		if z.group != nil && z.group[i] != none {
			n = cmp.Compare(*z.count(i, k), *z.count(i, best))
		}
		if n < 0 || n == 0 && (k == home || best != home && z.left[k] > z.left[best]) {
			best = k
		}
	}
	return best
}

// take moves an item to the emptiest member of a zone.
func (z *zones) take(move *Move, zone, home int32) {
	grouped := z.group != nil && z.group[move.Item] != none
	for k := range int32(z.n) {
		if k == zone || z.choice[k] == 0 {
			continue
		}
		if zone == home {
			move.For = Stay
		} else if grouped && *z.count(move.Item, k) > *z.count(move.Item, zone) {
			move.For = Spread
		}
	}
	if grouped {
		*z.count(move.Item, zone)++
	}
	j := z.takers[zone].winner()
	move.To = At(int(j))
	z.left[zone]--
	if z.slots[j]--; z.slots[j] == 0 {
		z.takers[zone].remove(j)
	} else {
		z.takers[zone].update(j, 0)
	}
}
