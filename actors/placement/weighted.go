package placement

import (
	"cmp"
	"slices"
)

// scales is the state of one plan for items of different weights.
type scales struct {
	*census
	load     []uint64
	heaviest []uint64 // weight of the heaviest unpinned item on each member; 0: has none
	at       []int32  // where each item will be; nil until something moves
	roof     uint64   // twice the average load, in a rollout; else 0

	takers *tournament // those that may get items, by rank, the least loaded first
	givers *tournament // those that hold unpinned items, the one with the highest floor first
	stock  []stock     // what givers can give; nil until one has to
}

// floor is what a load would be without its heaviest item. A member gives only to others below its
// floor: so every item that it could give is lighter than the difference, and the difference
// shrinks whichever it gives.
func (s *scales) floor(j int32) uint64 { return s.load[j] - s.heaviest[j] }

// stock lists the items that a member can give, lightest first and among equals the smallest index
// last.
type stock struct {
	sorted bool
	moving []int32 // it does not keep these anyhow: asked to leave already, or not here yet
	kept   []int32
}

// weighted plans for items of different weights: items that must go anywhere are placed heaviest
// first on the least loaded member with room; then members with too much give to those with too
// little.
func (c *census) weighted() Outcome {
	m := len(c.members)
	s := &scales{census: c, load: make([]uint64, m), heaviest: make([]uint64, m)}
	pins := c.settlePins(s.load)
	now := make([]uint64, m) // held by each member, pinned or not
	total := uint64(0)
	for i := range c.items {
		it := &c.items[i]
		total += it.weight()
		o := c.owner(it)
		if o == none {
			continue
		}
		now[o] += it.weight()
		if it.Pin == None && !c.members[o].Drain {
			s.load[o] += it.weight()
			s.heaviest[o] = max(s.heaviest[o], it.weight())
		}
	}
	s.setRoof(total)
	homeless := s.homeless()
	for _, p := range pins {
		if p.to != c.owner(&c.items[p.item]) {
			s.track()
			s.at[p.item] = p.to
		}
	}
	s.open()
	s.settle(homeless)
	plan := Outcome{Loads: s.load}
	s.emit(&plan, pins, now)
	return plan
}

// track starts the record of where items go.
func (s *scales) track() {
	if s.at != nil {
		return
	}
	s.at = make([]int32, len(s.items))
	for i := range s.items {
		s.at[i] = s.owner(&s.items[i])
	}
}

// homeless takes the items that may not stay off their owners and returns them with the free ones,
// heaviest first.
func (s *scales) homeless() []int32 {
	var list []int32
	over := make(map[int32][]int32)
	for j := range s.load {
		if s.load[j] > s.limits[j] {
			over[int32(j)] = nil
		}
	}
	for i := range s.items {
		it := &s.items[i]
		if it.Pin != None {
			continue
		}
		o := s.owner(it)
		if o == none || s.members[o].Drain {
			list = append(list, int32(i))
		} else if len(over) > 0 && s.load[o] > s.limits[o] {
			over[o] = append(over[o], int32(i))
		}
	}
	for j := range s.load {
		held := over[int32(j)]
		// Those that leave already, then the heaviest: the fewest moves, and the same ones again
		// when some of them were asked.
		slices.SortFunc(held, func(x, y int32) int {
			a, b := &s.items[x], &s.items[y]
			if a.Leaving != b.Leaving {
				if a.Leaving {
					return -1
				}
				return 1
			}
			return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(x, y))
		})
		for len(held) > 0 && s.load[j] > s.limits[j] {
			s.load[j] -= s.items[held[0]].weight()
			list = append(list, held[0])
			held = held[1:]
		}
		if over[int32(j)] != nil {
			s.heaviest[j] = 0
			for _, i := range held {
				s.heaviest[j] = max(s.heaviest[j], s.items[i].weight())
			}
		}
	}
	slices.SortFunc(list, func(x, y int32) int {
		return cmp.Or(cmp.Compare(s.items[y].weight(), s.items[x].weight()), cmp.Compare(x, y))
	})
	if len(list) > 0 {
		s.track()
		for _, i := range list {
			s.at[i] = none
		}
	}
	return list
}

func (s *scales) open() {
	s.takers = newTournament(len(s.members), func(a, b int32) bool {
		if x, y := s.rank(a), s.rank(b); x != y {
			return x < y
		}
		return s.load[a] < s.load[b] || s.load[a] == s.load[b] && a < b
	})
	for j := range s.members {
		if !s.members[j].Drain {
			s.takers.enter(int32(j), s.room(int32(j)))
		}
	}
	s.takers.play()
}

// setRoof fixes, in a rollout, twice the average load of those that may hold anything.
func (s *scales) setRoof(total uint64) {
	if !s.rollout {
		return
	}
	n := uint64(0)
	for _, limit := range s.limits {
		n += min(limit, 1)
	}
	s.roof = max(1, (total+n-1)/n*2)
}

// rank is 0 for those that get items first: in a rollout those with less than half the average,
// then those of the newest version with less than twice the average.
func (s *scales) rank(j int32) int {
	switch {
	case s.load[j] < s.roof/4 || s.roof == 0:
		return 0
	case s.members[j].Newest && s.load[j] < s.roof:
		return 1
	}
	return 2
}

// gives tells whether a member has anything to give for balance.
func (s *scales) gives(j int32) bool {
	most := s.roof
	if !s.members[j].Newest {
		most /= 2
	}
	return s.heaviest[j] > 0 && s.load[j] >= most
}

func (s *scales) room(j int32) uint64 { return s.limits[j] - min(s.limits[j], s.load[j]) }

// settle places and balances until neither changes anything: balancing can make room for an item
// that found none, and a plan on the outcome has to find nothing left to do.
func (s *scales) settle(homeless []int32) {
	for {
		before := len(homeless)
		homeless = slices.DeleteFunc(homeless, s.place)
		if placed := len(homeless) < before; !placed && s.givers != nil {
			return
		}
		if !s.balance() {
			return
		}
	}
}

// place puts an item on the least loaded member that has room for it.
func (s *scales) place(i int32) bool {
	w := s.items[i].weight()
	j := s.takers.winnerWith(w)
	if j == none {
		return false
	}
	s.at[i] = j
	s.receive(i, j)
	s.takers.update(j, s.room(j))
	return true
}

func (s *scales) receive(i, j int32) {
	w := s.items[i].weight()
	s.load[j] += w
	s.heaviest[j] = max(s.heaviest[j], w)
	if s.stock != nil {
		s.add(i, j)
	}
}

// balance moves items from members above others to these, and tells whether there was anything to
// move.
func (s *scales) balance() (moved bool) {
	for {
		if !s.openGivers() {
			return moved
		}
		again, blocked := false, false
		for {
			a, lowest := s.givers.winner(), s.takers.winner()
			if a == none || lowest == none || s.floor(a) <= s.load[lowest] {
				break
			}
			b := s.takers.winnerWith(s.heaviest[a])
			if b == none || s.floor(a) <= s.load[b] {
				s.givers.remove(a) // those below it have no room for what it holds
				blocked = true
				continue
			}
			s.give(a, b)
			again, moved = true, true
		}
		if !again || !blocked {
			return moved
		}
	}
}

// openGivers starts the tournament of those that can give; false when there is nobody.
func (s *scales) openGivers() bool {
	s.givers = newTournament(len(s.members), func(a, b int32) bool {
		return s.floor(a) > s.floor(b) || s.floor(a) == s.floor(b) && a < b
	})
	for j := range s.members {
		if s.gives(int32(j)) {
			s.givers.enter(int32(j), 0)
		}
	}
	s.givers.play()
	return s.givers.winner() != none
}

// give moves one item from a to b: the heaviest that does not make b the heavier of the two, else
// the lightest. Few heavy moves cost less than many light ones.
func (s *scales) give(a, b int32) {
	s.fill()
	half := (s.load[a] - s.load[b]) / 2
	st := s.sorted(a)
	list := &st.moving
	if len(*list) == 0 {
		list = &st.kept
	}
	k, _ := slices.BinarySearchFunc(*list, half, func(i int32, half uint64) int {
		if s.items[i].weight() <= half {
			return -1
		}
		return 1
	})
	k = max(k-1, 0)
	i := (*list)[k]
	*list = slices.Delete(*list, k, k+1)
	s.load[a] -= s.items[i].weight()
	s.heaviest[a] = max(s.last(st.moving), s.last(st.kept))
	s.at[i] = b
	s.receive(i, b)
	for _, j := range []int32{a, b} {
		s.takers.update(j, s.room(j))
		if s.gives(j) {
			s.givers.update(j, 0)
		} else {
			s.givers.remove(j)
		}
	}
}

func (s *scales) last(list []int32) uint64 {
	if len(list) == 0 {
		return 0
	}
	return s.items[list[len(list)-1]].weight()
}

// fill lists the items of every member, once.
func (s *scales) fill() {
	if s.stock != nil {
		return
	}
	s.track()
	s.stock = make([]stock, len(s.members))
	for i := range s.items {
		if j := s.at[i]; j != none && s.items[i].Pin == None {
			s.add(int32(i), j)
		}
	}
}

func (s *scales) add(i, j int32) {
	st := &s.stock[j]
	list := &st.kept
	if s.items[i].Leaving || s.items[i].Owner.index() != j {
		list = &st.moving
	}
	if !st.sorted {
		*list = append(*list, i)
		return
	}
	k, _ := slices.BinarySearchFunc(*list, i, s.lighter)
	*list = slices.Insert(*list, k, i)
}

func (s *scales) sorted(j int32) *stock {
	st := &s.stock[j]
	if !st.sorted {
		slices.SortFunc(st.moving, s.lighter)
		slices.SortFunc(st.kept, s.lighter)
		st.sorted = true
	}
	return st
}

func (s *scales) lighter(x, y int32) int {
	return cmp.Or(cmp.Compare(s.items[x].weight(), s.items[y].weight()), cmp.Compare(y, x))
}

// emit turns the record into moves. now is what each member holds before them.
func (s *scales) emit(plan *Outcome, pins []pin, now []uint64) {
	if s.at == nil && len(pins) == 0 {
		return
	}
	s.track()
	excess := s.excess(now)
	why := s.whyUnplaced()
	var left []Move
	for i := range s.items {
		it, to := &s.items[i], s.at[i]
		o := s.owner(it)
		because := why
		if it.Pin != None {
			because = pins[0].why
			pins = pins[1:]
		}
		if because != "" && (to == none || it.Pin != None) {
			plan.Unplaced = append(plan.Unplaced, Unplaced{Item: int32(i), Why: because})
		}
		switch {
		case o == to:
		case o == none:
			plan.Moves = append(plan.Moves, Move{Item: int32(i), To: Place(to + 1), Reason: New})
		default:
			left = append(left, Move{Item: int32(i), From: it.Owner, To: Place(to + 1),
				Reason: s.reason(it, excess)})
		}
	}
	plan.Moves = append(plan.Moves, left...)
}
