// Package placement decides which member runs which item.
//
//	members := []placement.Member{{ID: "n1"}, {ID: "n2"}}
//	items := []placement.Item{{ID: "a"}, {ID: "b"}}
//	for _, move := range placement.Compute(members, items).Moves {
//		fmt.Println(items[move.Item].ID, "goes to", members[move.To.Member()].ID)
//	}
//
// [Compute] is a pure function from members, items and who holds what now to the moves that are
// needed. It reads no clock, does no I/O, uses no randomness and starts nothing: equal input gives
// an equal [Outcome].
//
// Guaranteed, whatever the weights:
//
//  1. Hard limits. No member is planned above its capacity, and a drained member is planned to hold
//     nothing.
//  2. Nothing is lost. Every item stays, or is in Moves once; one that no member can take is in
//     Unplaced, with the reason, and does not keep the others from being placed.
//  3. Idempotence. Computing again on the outcome of a plan gives no moves.
//  4. Sticky. An item moves only if its member is drained, above its capacity or above its share,
//     or if the item is pinned elsewhere. Every move names which of these it is.
//
// Guaranteed when all weights are equal:
//
//  5. Even. Among members whose capacity and pinned items leave the choice, the largest and the
//     smallest number of items differ by one at most. Members that are full are full, the others
//     share the rest.
//  6. Fewest moves. No plan with the properties above moves fewer items that already have an owner.
//  7. Steady while it is carried out. A plan may be carried out in any order and in steps,
//     computing anew between any two (an item is asked for: Leaving; is released: Owner None; is
//     granted: Owner). As long as members, items and pins do not change, the items that move in the
//     end are as many as in the first plan.
//
// Guaranteed when weights differ:
//
//  8. Even up to one item. For any two members a and b, where a holds an unpinned item and b has
//     room for the heaviest of them: load(a) - load(b) is at most the weight of that heaviest item.
//     Without capacities and pins, the spread between all members is therefore at most the weight
//     of the heaviest item.
//  9. Every balance move carries less than the difference between its two members at that point, so
//     it shrinks it. When a member is gone from a plan that was carried out, there are no
//     capacities, and no rollout is on, only its own items move.
//
// In a rollout, as long as there are Newest members that may hold anything, and others, drained or
// not:
//
//  10. Items that have to move go to Newest members, the emptiest first, as long as these have room
//     and hold less than twice the share that each member would have otherwise. So an item that
//     leaves an older member is not given to one that is to be restarted. Only to members with less
//     than half that share do items go before, so that nobody is left with nothing.
//  11. A Newest member gives up nothing for balance below twice that share; an older one gives up
//     what is above its share, as always. With equal weights this takes the place of 5, and 6 and 7
//     hold; with others it takes the place of 8, and each load is at most twice the average and the
//     heaviest item, if there are neither capacities nor pins.
//
// Where members are in different zones:
//
//  12. Zones change which items move and where to, among items of one weight, and nothing else: no
//     load, and no more moves.
//  13. Of items that move, those of no group stay in their zones as far as there are targets. Those
//     of a group go to the zone that holds the fewest items of the group; among equals they stay.
//     When all weights are equal, a member that holds too much first gives up items of groups with
//     several in its zone.
//
// Not guaranteed:
//
//   - That a group is spread: where nothing has to move, nothing moves for it.
//   - With different weights neither the number of moves nor the number of items placed under tight
//     capacities is optimal: both are bin packing, and this is a greedy answer. A plan that is
//     carried out in steps may need a few moves more or fewer than one that is carried out at once;
//     it settles all the same. A member that holds one giant item keeps its small ones.
//   - Limits hold for the outcome. On the way there a member can be above its capacity for as long
//     as it has an item that was granted because another is to leave: a pinned one, or with
//     different weights any.
//   - An item that was asked to leave and no longer has to is simply not in Moves: calling it back
//     is the caller's task.
//
// Cost: with equal weights O(n + m log n) for n items and m members, with other weights O(n + p log
// p + p log m) for p items that move, O(p m) at worst where capacities bind. Memory is allocated
// for members and moves, not for items that stay.
package placement

import "math"

// Place is where an item is, or goes: at a member, named by its index, or nowhere. The zero value
// is nowhere, so a free item without a pin is Item{ID: id}.
type Place int32

// None is the Place that is nowhere.
const None Place = 0

// none stands for "no member" wherever the index of a member is expected.
const none int32 = -1

// At returns the Place at the member of that index.
func At(member int) Place { return Place(member + 1) }

// Member returns the index of the member, -1 if the Place is nowhere.
func (p Place) Member() int { return int(p) - 1 }

// index is Member as this package keeps it.
func (p Place) index() int32 { return int32(p) - 1 }

// MaxWeight is the most that one item can weigh; a heavier one counts as this. It keeps the sum of
// 16 million items within a uint64, as weights are free for users to write.
const MaxWeight = 1 << 40

// Member is one machine that can hold items.
type Member struct {
	ID       string
	Capacity uint64 // most weight that it may hold; 0: no limit
	Drain    bool   // keeps nothing and gets nothing: it is leaving, or an operator drained it
	// It has the version that a rollout brings, to which others will be restarted. Among members
	// that all have it, as among members that all lack it, it means nothing.
	Newest bool
	Zone   string // where it is; empty is a zone too
}

// Item is one piece of work.
type Item struct {
	ID     string
	Weight uint64 // 0 counts as 1; more than MaxWeight as MaxWeight
	Owner  Place  // who holds it now; None, or any index that is no member: it is free
	// its owner has been asked to give it up already; it is the first to go, if one has to
	Leaving bool
	// where it must be; None: anywhere; an index beyond the members: at one that is not here now
	Pin Place
	// of a free item, any member of the zone in which it was; None: that is not known
	Near Place
}

// Reason says why an item moves.
type Reason uint8

// The reasons for a move.
const (
	New      Reason = iota + 1 // it had no owner
	Balance                    // its owner holds more than its share
	Drain                      // its owner is drained
	Capacity                   // its owner holds more than its capacity
	Pinned                     // it is pinned to another member
)

// String returns the reason as one lower-case word, fit for a log or a stored value.
func (r Reason) String() string {
	switch r {
	case New:
		return "new"
	case Balance:
		return "balance"
	case Drain:
		return "drain"
	case Capacity:
		return "capacity"
	case Pinned:
		return "pinned"
	}
	return "unknown"
}

// Move takes an item from one member to another.
type Move struct {
	Item int32 // its index in what Compute was given
	From Place // None: the item is free
	To   Place // None: the item has to leave and fits nowhere; it is in Unplaced too

	Reason Reason
	For    Preference // 0: its target is as good as others
}

// Why an item is in Unplaced.
const (
	WhyNoMembers  = "there are no members"
	WhyAllDrained = "every member is drained"
	WhyNoRoom     = "no member has room for its weight"
	WhyPinAbsent  = "pinned to a member that is not here"
	WhyPinDrained = "pinned to a member that is drained"
	WhyPinNoRoom  = "pinned to a member that has no room for it"
)

// Unplaced names an item that has no place to be. A free one stays free. One that is held and whose
// owner may not keep it has a Move to None as well. One that is held and only pinned to where it
// cannot be stays where it is: stopping it would help nobody.
type Unplaced struct {
	Item int32
	Why  string // one of the Why constants
}

// Outcome is the plan that Compute returns.
type Outcome struct {
	// Moves holds the free items first, ordered by item and, with equal weights, no pins and one
	// zone, by member too; then the items that have to leave an owner, ordered by item. Where those
	// will go is a forecast: it is decided when they are free.
	Moves    []Move
	Unplaced []Unplaced // ordered by item
	Loads    []uint64   // weight held by each member once all moves are made
}

// Compute plans who should hold what. Members and items must be sorted by ID and free of
// duplicates: ties go to the smaller index, so that every leader with the same input comes to the
// same plan. It modifies neither.
func Compute(members []Member, items []Item) Outcome {
	c := takeCensus(members, items)
	var p Outcome
	if c.uniform {
		p = c.even()
	} else {
		p = c.weighted()
	}
	c.settleZones(&p)
	return p
}

// census is what one pass over the input finds. The counts of items leave out those that are
// pinned.
type census struct {
	members []Member
	items   []Item

	limits  []uint64 // weight that each member may hold
	uniform bool     // every item weighs the same: unit
	unit    uint64
	held    []holding
	rollout bool // there are members of the newest version that may hold anything, and older ones
	free    int64
	pinned  int     // how many items have a pin
	loose   []int32 // items that are free, leaving or pinned, ascending; cut off above maxLoose
}

// holding counts the unpinned items of a member.
type holding struct {
	kept, leaving int32
	sample        int32 // one of those kept
}

func (h holding) all() int64 { return int64(h.kept) + int64(h.leaving) }

// maxLoose bounds the list of loose items: the list saves a second pass over all items when few are
// loose, and would cost more than that pass when many are.
const maxLoose = 4096

func takeCensus(members []Member, items []Item) *census {
	c := &census{
		members: members,
		items:   items,
		limits:  make([]uint64, len(members)),
		held:    make([]holding, len(members)),
		uniform: true,
		unit:    1,
	}
	c.takeMembers()
	if len(items) == 0 {
		return c
	}
	raw := items[0].Weight
	c.unit = items[0].weight()
	var free, pinned int
	uniform := true
	for i := 0; i < len(items); {
		it := &items[i]
		i++
		if it.Weight != raw && it.weight() != c.unit {
			uniform = false
		}
		owner, o := it.Owner, it.Owner.index()
		if it.Pin == None && uint32(o) < uint32(len(c.held)) && !it.Leaving {
			// Neighbours often have the same owner. Adding up runs of them, not each alone, halves
			// the time of this loop: one addition has to wait for the store of the one before.
			start := i - 1
			for i < len(items) && items[i].Owner == owner && items[i].Weight == raw &&
				items[i].Pin == None && !items[i].Leaving {
				i++
			}
			c.held[o].kept += int32(i - start)
			c.held[o].sample = int32(start)
			continue
		}
		if len(c.loose) <= maxLoose {
			c.loose = append(c.loose, int32(i-1))
		} else if it.Pin == None && uint32(o) >= uint32(len(c.held)) {
			// Many are free, as before the first plan: add up runs here too.
			start := i - 1
			for i < len(items) && uint32(items[i].Owner.index()) >= uint32(len(c.held)) &&
				items[i].Weight == raw && items[i].Pin == None {
				i++
			}
			free += i - start
			continue
		}
		switch {
		case it.Pin != None:
			pinned++
		case uint32(o) >= uint32(len(c.held)):
			free++
		default:
			c.held[o].leaving++
		}
	}
	c.free, c.pinned, c.uniform = int64(free), pinned, uniform
	return c
}

// takeMembers fixes the members' limits, and finds out whether there is a rollout.
func (c *census) takeMembers() {
	var newest, older bool
	for j, m := range c.members {
		newest, older = newest || m.Newest && !m.Drain, older || !m.Newest
		switch {
		case m.Drain:
		case m.Capacity == 0:
			c.limits[j] = math.MaxUint64
		default:
			c.limits[j] = m.Capacity
		}
	}
	c.rollout = newest && older
}

func (it *Item) weight() uint64 { return min(max(it.Weight, 1), MaxWeight) }

// owner is the index of the item's owner, with every index that is no member turned into none.
func (c *census) owner(it *Item) int32 {
	o := it.Owner.index()
	if uint32(o) >= uint32(len(c.members)) {
		return none
	}
	return o
}

// whyUnplaced says why an unpinned item found no place.
func (c *census) whyUnplaced() string {
	if len(c.members) == 0 {
		return WhyNoMembers
	}
	for j := range c.members {
		if !c.members[j].Drain {
			return WhyNoRoom
		}
	}
	return WhyAllDrained
}

// excess turns the weight that each member holds now into the weight by which that is above its
// limit.
func (c *census) excess(now []uint64) []uint64 {
	for j := range now {
		now[j] -= min(now[j], c.limits[j])
	}
	return now
}

// reason says why an item leaves its owner, and takes it off the owner's excess: as many items
// leave for the sake of a capacity as it takes to get below it, the rest for balance.
func (c *census) reason(it *Item, excess []uint64) Reason {
	o := it.Owner.index()
	over := excess[o] > 0
	excess[o] -= min(excess[o], it.weight())
	switch {
	case it.Pin != None && it.Pin != it.Owner:
		return Pinned
	case c.members[o].Drain:
		return Drain
	case over:
		return Capacity
	}
	return Balance
}
