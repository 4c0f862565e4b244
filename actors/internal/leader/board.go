package leader

import (
	"slices"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
)

// keyRef is one assignment key.
type keyRef struct {
	member string
	item   string
	facts.Assignment
}

// board is the assignment keys held against the members and the workload: what the planner is
// asked, and what it is not asked about.
type board struct {
	members []placement.Member
	places  map[string]placement.Place // of the members
	version string                     // the newest one, while members carry others; else empty

	items []placement.Item // those that may be planned now
	keys  []keyRef         // of each, the key that it has, if any
	// wishes are items that are pinned for the planner as long as none has no place for that.
	wishes []int

	removed []keyRef // keys of items that are no longer in the workload
	extra   []keyRef // second keys of an item
	doubles []string // such items
	barred  []keyRef // keys of quarantined items
	free    []string // quarantined items that have none
	// waiting counts items that stay where they are: at a vanished member in its grace, or one with
	// an unreadable record, or under a second key.
	waiting int

	keyed   int      // keys in all
	holders int      // members with keys
	lost    []string // of them, those without a record
	grace   bool     // somebody's grace is running
}

// newBoard sets the board up, step by step.
func (in *inputs) newBoard(p *plan) *board {
	b := &board{}
	in.seatMembers(b)
	in.markVersions(b)
	near := in.markZones(b)
	owners := in.sortKeys(b, p)
	in.listItems(b, owners, near)
	in.prefer(b, p)
	in.avoidWhereItFailed(b)
	return b
}

// seatMembers lists the members for the planner. A drained one gets nothing.
func (in *inputs) seatMembers(b *board) {
	b.members = make([]placement.Member, in.members.Len())
	b.places = make(map[string]placement.Place, in.members.Len())
	for i := range in.members.Len() {
		id, m := in.members.At(i)
		b.members[i] = placement.Member{ID: id, Capacity: m.Capacity, Drain: m.Leaving ||
			m.Idle || m.Unreadable || protocol.CheckMemberID(id) != nil ||
			in.control.Drain.Has(id)}
		b.places[id] = placement.At(i)
	}
}

// owners say of each item of the workload which key it has.
type owners struct {
	refs []keyRef
	at   []placement.Place // the member that has the key, if that is there
	held []bool            // the item is not planned: its key may not be touched now
}

// sortKeys finds the key of each item, and the keys that there should not be.
func (in *inputs) sortKeys(b *board, p *plan) owners {
	n := in.workload.Len()
	o := owners{make([]keyRef, n), make([]placement.Place, n), make([]bool, n)}
	for _, member := range in.assigned.holders() {
		at, present := b.places[member]
		m, _ := in.members.Get(member)
		away := in.absent[member]
		b.holders++
		if !present {
			b.lost = append(b.lost, member)
			if !away.over(in.now) {
				b.grace = b.grace || !away.since.IsZero()
				p.wake = actor.Earliest(p.wake, away.ends())
			}
		}
		for item, a := range in.assigned[member] {
			b.keyed++
			ref := keyRef{member, item, a}
			i, wanted := in.index[item]
			if !wanted {
				b.removed = append(b.removed, ref)
				continue
			}
			if o.refs[i].member != "" && !b.settleDouble(&o.refs[i], ref) {
				continue
			}
			o.refs[i], o.at[i], o.held[i] = ref, placement.None, false
			switch {
			case m.Unreadable:
				o.held[i] = true
			case present:
				o.at[i] = at
			default:
				o.held[i] = !away.over(in.now)
			}
		}
	}
	// While another member may run an item under a second key, it is given to nobody.
	for _, ref := range b.extra {
		if i := in.index[ref.item]; o.at[i] == placement.None {
			o.held[i] = true
		}
	}
	return o
}

// settleDouble takes in that an item has a second key. It tells whether that is the elder: the
// elder stays.
func (b *board) settleDouble(have *keyRef, second keyRef) bool {
	b.doubles = append(b.doubles, second.item)
	if have.CreateIndex <= second.CreateIndex {
		b.extra = append(b.extra, second)
		return false
	}
	b.extra = append(b.extra, *have)
	return true
}

// listItems lists the items that may be planned now, with operators' pins.
func (in *inputs) listItems(b *board, o owners, near func(item, member string) placement.Place) {
	n := in.workload.Len()
	b.items = make([]placement.Item, 0, n)
	b.keys = o.refs[:0] // a second list of 100,000 takes 13 MB; refs is read ahead of what is kept
	for i := range n {
		id, w := in.workload.At(i)
		switch ref := o.refs[i]; {
		case o.held[i]:
			b.waiting++
			continue
		case !in.barred(b, id):
		case ref.member == "":
			b.free = append(b.free, id)
			continue
		default:
			b.barred = append(b.barred, ref)
			continue
		}
		item := placement.Item{ID: id, Weight: w.Weight, Owner: o.at[i],
			Leaving: o.at[i] != placement.None && o.refs[i].Releasing}
		if near != nil && item.Owner == placement.None {
			item.Near = near(id, o.refs[i].member)
		}
		if to, pinned := in.control.Pins.Get(id); pinned {
			item.Pin = b.nobody()
			if at, ok := b.places[to]; ok {
				item.Pin = at
			}
		}
		b.items = append(b.items, item)
		b.keys = append(b.keys, o.refs[i])
	}
}

// nobody is the place of a member that is not there.
func (b *board) nobody() placement.Place { return placement.At(len(b.members)) }

// loads are the weights of what each member has, and of what is pinned there and still to come.
func (b *board) loads() []uint64 {
	loads := make([]uint64, len(b.members))
	for _, item := range b.items {
		if item.Owner != placement.None && !item.Leaving {
			loads[item.Owner.Member()] += weight(item)
		}
		if at := item.Pin.Member(); item.Pin != placement.None && item.Pin != item.Owner &&
			at < len(loads) {
			loads[at] += weight(item)
		}
	}
	return loads
}

// pinned are the weights of what must be at each member: also of what is pinned to one that is away
// or drained, and so stays where it is.
func (b *board) pinned() []uint64 {
	loads := make([]uint64, len(b.members))
	for _, item := range b.items {
		at := item.Pin.Member()
		if item.Pin != placement.None && (at >= len(loads) || b.members[at].Drain) {
			at = item.Owner.Member()
		}
		if item.Pin != placement.None && at >= 0 {
			loads[at] += weight(item)
		}
	}
	return loads
}

// fits tells whether a member that carries so much takes an item of that weight.
func fits(m placement.Member, load, weight uint64) bool {
	return !m.Drain && (m.Capacity == 0 || load+weight <= m.Capacity)
}

// weight is what the planner takes an item's for.
func weight(item placement.Item) uint64 {
	return min(max(item.Weight, 1), placement.MaxWeight)
}

// compute plans. What the leader itself has pinned, for a wish or because work has failed, leaves
// no item without a place: where it would, the plan is made without that.
func (b *board) compute() placement.Outcome {
	p := placement.Compute(b.members, b.items)
	n := homeless(b, p)
	if n == 0 || len(b.wishes) == 0 {
		return p
	}
	without := slices.Clone(b.items)
	for _, i := range b.wishes {
		without[i].Pin = placement.None
	}
	if q := placement.Compute(b.members, without); homeless(b, q) < n {
		p, b.items = q, without
	}
	return p
}

// homeless counts the items that have no owner after a plan.
func homeless(b *board, p placement.Outcome) (n int) {
	for _, u := range p.Unplaced {
		if b.items[u.Item].Owner == placement.None {
			n++
		}
	}
	for _, m := range p.Moves {
		if m.From != placement.None && m.To == placement.None {
			n++
		}
	}
	return n
}
