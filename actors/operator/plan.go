package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/actors/internal/leader"
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/store"
)

// WhatIf is what [Client.Plan] imagines beside what is there.
type WhatIf struct {
	Drain   []string // members that an operator drains
	Without []string // members that are lost
	Add     int      // members more, without a capacity
}

// Plan is what the leader would do, once everything has come to rest: after its soaks, the graces
// of lost members and as many steps as the move budget asks for. Its JSON form is that of `coordd
// plan --json`.
type Plan struct {
	Service string `json:"service"`
	// Moves are ordered by item. Where an item goes to is a forecast: the leader decides it when
	// the item is free, and may choose another member with as many items.
	Moves    []PlanMove     `json:"moves"`
	Unplaced []PlanUnplaced `json:"unplaced"` // items that nobody would run
	Members  []PlanMember   `json:"members"`
	// Moving is how many items go from one member to another, or have to stop; Starting are those
	// that nobody runs now.
	Moving   int `json:"moving"`
	Starting int `json:"starting"`
	// The imbalance is the difference between the largest and the smallest load, in weight, among
	// members that take work: those of now, and those of then.
	ImbalanceBefore uint64 `json:"imbalance_before"`
	ImbalanceAfter  uint64 `json:"imbalance_after"`
	Removed         int    `json:"removed,omitempty"` // items out of the workload that will stop
	// Quarantined are items that nobody is to run, because their work failed too often.
	Quarantined int `json:"quarantined,omitempty"`
	// Version is the newest one while members carry others: until they do not, items that move
	// prefer its members, which hold up to twice the share of each.
	Version string `json:"version,omitempty"`
	// Frozen: an operator has ordered that nothing moves.
	Frozen bool `json:"frozen,omitempty"`
	// Brake says why the leader would hold its brake before it does any of this.
	Brake string `json:"brake,omitempty"`
}

// PlanMove takes an item from one member to another.
type PlanMove struct {
	Item string `json:"item"`
	From string `json:"from"` // empty: nobody runs it
	To   string `json:"to"`   // empty: no member can have it
	// Why is new, balance, drain, capacity, pinned, preferred, or failing; or takeover, of a lost
	// member.
	Why string `json:"why"`
	// Prefers is what To is preferred for among those that could have it, as in "version 2".
	Prefers string `json:"prefers,omitempty"`
}

// PlanUnplaced is an item that has no place to be.
type PlanUnplaced struct {
	Item string `json:"item"`
	At   string `json:"at,omitempty"` // it stays there
	Why  string `json:"why"`
}

// PlanMember is what becomes of a member.
type PlanMember struct {
	ID     string `json:"id"`
	Before int    `json:"items_before"`
	After  int    `json:"items_after"`
	Gets   int    `json:"gets"`
	Gives  int    `json:"gives"`
	// The loads are the weights of its items.
	LoadBefore uint64 `json:"load_before"`
	LoadAfter  uint64 `json:"load_after"`
	Capacity   uint64 `json:"capacity,omitempty"`
	TakesWork  bool   `json:"takes_work"`
	Drained    bool   `json:"drained,omitempty"` // by this plan, or by an order
	Gone       bool   `json:"gone,omitempty"`    // in this plan, or now
	New        bool   `json:"new,omitempty"`
}

// Plan plans with the leader's own planner from what is in Consul now, and writes nothing. Errors:
// [ErrInvalid], [ErrNotFound] for a member that is neither registered nor holds anything, and as
// for Status.
func (c *Client) Plan(ctx context.Context, what WhatIf) (Plan, error) {
	if what.Add < 0 || what.Add > maxAdded {
		return Plan{}, fmt.Errorf("%w: %d members more: give 0 to %d", ErrInvalid, what.Add,
			maxAdded)
	}
	var seen leader.Seen
	var control []store.Entry
	for _, p := range []struct {
		prefix string
		into   *[]store.Entry
	}{
		{c.keys.Members(), &seen.Members}, {c.keys.Control(), &control},
		{c.keys.Workload(), &seen.Workload}, {c.keys.Quarantines(), &seen.Quarantines},
		{c.keys.Assignments(), &seen.Assignments},
	} {
		var err error
		if *p.into, _, err = c.store.List(ctx, p.prefix, store.Consistent); err != nil {
			return Plan{}, fmt.Errorf("planning for service %q: %w", c.keys.Service(), err)
		}
	}
	seen.Orders = c.keys.ReadOrders(control, skip)
	known := seen.Known(c.keys)
	for _, id := range slices.Concat(what.Drain, what.Without) {
		if err := CheckID(id); err != nil {
			return Plan{}, err
		}
		if !known[id] {
			return Plan{}, fmt.Errorf("planning: member %q: %w", id, ErrNotFound)
		}
	}
	p := planOf(leader.NewForecast(c.keys, seen, leader.Change{Drain: what.Drain,
		Without: what.Without, Add: what.Add}))
	p.Service, p.Frozen = c.keys.Service(), seen.Orders.Frozen
	return p, nil
}

// maxAdded is the most members that a plan imagines.
const maxAdded = 1000

// planOf says with names what a forecast says with places.
func planOf(f leader.Forecast) Plan {
	p := Plan{Moves: []PlanMove{}, Unplaced: []PlanUnplaced{}, Members: []PlanMember{},
		Removed: f.Removed, Brake: f.Brake, Quarantined: f.Quarantined, Version: f.Version}
	members := map[string]*PlanMember{}
	for i, m := range f.Members {
		members[m.ID] = &PlanMember{ID: m.ID, Capacity: m.Capacity, TakesWork: !m.Drain,
			Drained: f.Drained[m.ID], New: f.New[m.ID], LoadAfter: f.Plan.Loads[i]}
	}
	for id := range f.Gone {
		members[id] = &PlanMember{ID: id, Gone: true}
	}
	for i, owner := range f.Owners {
		if m := members[owner]; m != nil {
			m.Before++
			m.LoadBefore += min(max(f.Items[i].Weight, 1), placement.MaxWeight)
		}
	}
	stops := map[int32]bool{}
	for n, move := range f.Plan.Moves {
		m := PlanMove{Item: f.Items[move.Item].ID, From: f.Owners[move.Item],
			Why: f.Reasons[n], Prefers: f.Prefers[n]}
		if move.To != placement.None {
			m.To = f.Members[move.To.Member()].ID
			members[m.To].Gets++
		} else {
			stops[move.Item] = true
		}
		switch {
		case m.From == "":
			p.Starting++
		case move.From == placement.None: // its owner is gone
			m.Why = leader.Takeover
			fallthrough
		default:
			p.Moving++
			members[m.From].Gives++
		}
		p.Moves = append(p.Moves, m)
	}
	for _, u := range f.Plan.Unplaced {
		at := f.Owners[u.Item]
		switch {
		case f.Gone[at] && !f.Lost[at]: // it has stopped already
			at = ""
		case f.Gone[at]: // it stops with its owner
			p.Moves = append(p.Moves, PlanMove{Item: f.Items[u.Item].ID, From: at,
				Why: leader.Takeover})
			p.Moving++
			members[at].Gives++
			at = ""
		case stops[u.Item]:
			at = ""
		}
		p.Unplaced = append(p.Unplaced, PlanUnplaced{Item: f.Items[u.Item].ID, At: at, Why: u.Why})
	}
	for _, m := range members {
		m.After = m.Before + m.Gets - m.Gives
		if m.Gone {
			m.After = 0
		}
		p.Members = append(p.Members, *m)
	}
	slices.SortFunc(p.Members, func(a, b PlanMember) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(p.Moves, func(a, b PlanMove) int { return strings.Compare(a.Item, b.Item) })
	p.ImbalanceBefore = spread(p.Members, func(m PlanMember) (uint64, bool) {
		return m.LoadBefore, !m.New && (m.TakesWork || m.Before > 0)
	})
	p.ImbalanceAfter = spread(p.Members, func(m PlanMember) (uint64, bool) {
		return m.LoadAfter, m.TakesWork
	})
	return p
}

// spread is the difference between the largest and the smallest load of those that count.
func spread(members []PlanMember, load func(PlanMember) (uint64, bool)) uint64 {
	var loads []uint64
	for _, m := range members {
		if l, counts := load(m); counts {
			loads = append(loads, l)
		}
	}
	if len(loads) == 0 {
		return 0
	}
	return slices.Max(loads) - slices.Min(loads)
}
