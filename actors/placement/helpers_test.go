package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/testkit"
)

const none = placement.None

func at(member int) placement.Place { return placement.At(member) }

// input is what a plan is made from.
type input struct {
	members []placement.Member
	items   []placement.Item
}

func (in input) clone() input {
	return input{slices.Clone(in.members), slices.Clone(in.items)}
}

func (in input) plan() placement.Outcome { return placement.Compute(in.members, in.items) }

// weight is what an item counts for, written anew from the documentation.
func weight(it placement.Item) uint64 {
	switch {
	case it.Weight == 0:
		return 1
	case it.Weight > placement.MaxWeight:
		return placement.MaxWeight
	}
	return it.Weight
}

// held returns the weight that every member holds now.
func (in input) held() []uint64 {
	sums := make([]uint64, len(in.members))
	for _, it := range in.items {
		if at := it.Owner.Member(); at >= 0 && at < len(sums) {
			sums[at] += weight(it)
		}
	}
	return sums
}

// carryOut returns the input as it is once the plan has been carried out.
func (in input) carryOut(p placement.Outcome) input {
	out := in.clone()
	for i := range out.items {
		out.items[i].Leaving = false
	}
	for _, mv := range p.Moves {
		out.items[mv.Item].Owner = mv.To
	}
	return out
}

// room tells whether member j has room for w on top of load.
func (in input) room(j int, load, w uint64) bool {
	m := in.members[j]
	return !m.Drain && (m.Capacity == 0 || load+w <= m.Capacity)
}

var weights = []uint64{1, 0, 2, 3, 5, 10, 40}

// shape says what an input may hold.
type shape struct {
	maxMembers, maxItems int
	weighted             bool
	capacities           bool
	drains               bool
	pins                 bool
	transit              bool // items that are free or leaving already
	rollout              bool // some members are of the newest version
	zones                bool // up to three, and items in groups
}

func (s shape) draw(d testkit.Dice) input {
	return s.sized(d.Rand, 1+d.Few(s.maxMembers-1), d.Few(s.maxItems))
}

// sized draws an input of m members and n items.
func (s shape) sized(r *rand.Rand, m, n int) (in input) {
	unit := []uint64{0, 1, 7}[r.IntN(3)]
	average := 4 * n / m
	for j := range m {
		mem := placement.Member{ID: fmt.Sprintf("m%03d", j)}
		if s.capacities && r.IntN(2) == 0 {
			mem.Capacity = uint64(1 + r.IntN(2*average+2))
		}
		mem.Drain = s.drains && r.IntN(5) == 0
		mem.Newest = s.rollout && r.IntN(3) == 0
		if s.zones {
			mem.Zone = []string{"", "a", "b"}[r.IntN(3)]
		}
		in.members = append(in.members, mem)
	}
	// Few owners make uneven inputs, as after a join.
	owners := 1 + r.IntN(m)
	// Mixed or all alike, few of them free or nearly all.
	heavy := 1 + r.IntN(len(weights))
	free, leaving, pinned := r.IntN(100), r.IntN(60), r.IntN(60)
	grouped, size := r.IntN(2) == 0, 1+r.IntN(9)
	for i := range n {
		it := placement.Item{ID: fmt.Sprintf("w%04d", i), Weight: unit}
		if s.weighted {
			it.Weight = weights[r.IntN(heavy)]
		}
		if !s.transit || r.IntN(100) >= free {
			it.Owner = at(r.IntN(owners))
			it.Leaving = s.transit && r.IntN(100) < leaving
		}
		if s.zones && grouped {
			it.ID = fmt.Sprintf("w%04d:%d", i/size, i%size)
		}
		if s.zones && it.Owner == none {
			it.Near = placement.Place(r.IntN(m + 2))
		}
		if s.pins && r.IntN(100) < pinned {
			it.Pin = at(r.IntN(m + 1)) // m: absent
		}
		in.items = append(in.items, it)
	}
	return in
}

// everything is the widest shape: whatever holds for all inputs is tested with it.
func everything(d testkit.Dice) input {
	s := shape{maxMembers: 8, maxItems: 50, drains: true, transit: true}
	s.weighted, s.capacities, s.pins = d.Bool(), d.Bool(), d.Bool()
	s.rollout, s.zones = d.Bool(), d.Bool()
	return s.draw(d)
}

// plain returns the input without versions.
func (in input) plain() input {
	out := in.clone()
	for j := range out.members {
		out.members[j].Newest = false
	}
	return out
}

// rollout tells whether versions mean anything.
func (in input) rollout() bool {
	var newest, older bool
	for _, m := range in.members {
		newest, older = newest || m.Newest && !m.Drain, older || !m.Newest
	}
	return newest && older
}

// unfair returns what is wrong with the balance, or "". It holds for a settled input: if a holds an
// unpinned item and b has room for the heaviest of them, the loads differ by at most that item. In
// a rollout other rules hold, which have tests of their own.
func (in input) unfair() string {
	if in.rollout() {
		return ""
	}
	loads := in.held()
	for a := range in.members {
		var heaviest uint64
		for _, it := range in.items {
			if it.Owner.Member() == a && it.Pin == none {
				heaviest = max(heaviest, weight(it))
			}
		}
		if heaviest == 0 {
			continue
		}
		for b := range in.members {
			if in.room(b, loads[b], heaviest) && loads[a] > loads[b]+heaviest {
				return fmt.Sprintf("%s holds %d and %s only %d, with an item of %d to give",
					in.members[a].ID, loads[a], in.members[b].ID, loads[b], heaviest)
			}
		}
	}
	return ""
}
