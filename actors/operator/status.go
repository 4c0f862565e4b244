package operator

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/protocol"
)

// Status is what there is to say of a service in a few lines. Its JSON form is
// that of `coordd status --json`.
type Status struct {
	Service string         `json:"service"`
	Leader  *StatusLeader  `json:"leader"` // null: nobody leads
	Members []StatusMember `json:"members"`
	Work    StatusWork     `json:"work"`
	// Absent are those that hold items and are not registered: their items wait for them.
	Absent []StatusMember `json:"absent,omitempty"`
	// Frozen: an operator has ordered that nothing is planned.
	Frozen bool `json:"frozen,omitempty"`
	// Brake says why the leader plans nothing although there is something to do, and what lets the
	// brake go.
	Brake string `json:"brake,omitempty"`
	// Refused are the leader's writes that Consul refuses, by key, and why. Each is tried again
	// every 30 s; all others go on.
	Refused map[string]string `json:"refused,omitempty"`
	// Drained are the members that an operator has ordered to be emptied, registered or not.
	Drained []string `json:"drained,omitempty"`
	// Orders are those to freeze and to drain that stand: who gave each, and when.
	Orders []StatusOrder `json:"orders,omitempty"`
	// Pins is how many items an operator has pinned to a member.
	Pins int `json:"pins,omitempty"`
	// Problems says what is wrong, the worst first: nobody leads, items run nowhere or loop.
	Problems []Problem `json:"problems,omitempty"`
	// Unreadable are keys that this version cannot read; they are skipped. At most ten are named.
	Unreadable []string `json:"unreadable,omitempty"`
}

// StatusLeader is who leads, and the ModifyIndex that guards its writes.
type StatusLeader struct {
	ID    string `json:"id"`
	Epoch uint64 `json:"epoch"`
}

// StatusOrder is an order that stands until an operator takes it back.
type StatusOrder struct {
	Kind   string    `json:"kind"`             // freeze or drain
	Member string    `json:"member,omitempty"` // that is to be emptied
	By     string    `json:"by,omitempty"`     // who gave it, where the order says so
	At     time.Time `json:"at,omitzero"`      // when, by the clock of who gave it; zero: not known
	// Deadline is when the member gives up at once what it has left; zero: never.
	Deadline time.Time `json:"deadline,omitzero"`
}

// StatusMember is one member and its load.
type StatusMember struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Status  string `json:"status"` // alive, leaving; gone for those in Absent
	Items   int    `json:"items"`  // those being released included
	// Releasing are those of the items that it is to give up.
	Releasing int  `json:"releasing,omitempty"`
	Drained   bool `json:"drained,omitempty"`
	// Idle: it runs no items; it can lead.
	Idle     bool   `json:"idle,omitempty"`
	Capacity uint64 `json:"capacity,omitempty"`
	// Load is the weight of its items; absent: each weighs 1, or the weights were not read.
	Load    uint64 `json:"load,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Version string `json:"version,omitempty"`
	// WorkVersion is that of what it runs, as it says.
	WorkVersion string `json:"work_version,omitempty"`
	// Lease is how long the member works on after its last sign of life, at the most, in
	// milliseconds; 0: it does not say.
	Lease int64 `json:"lease_ms,omitempty"`
	// States counts its items by what their work does.
	States map[ItemState]int `json:"states,omitempty"`
	// Since is, of one that is gone, from when on the leader has missed it, by the leader's clock
	// and as it has noted last: a quarter of a lease late at the most. Consul itself tells of a
	// silent member no more than that its check, or its session, has ended: so it was silent for as
	// long as that takes before. Zero: not known.
	Since time.Time `json:"since,omitzero"`
	// SilentSince is when the member was heard last, by its own clock, if its health check in
	// Consul has run out. Of one that is registered still Consul has the session, which was not
	// bound to the check: its items stay with it until that ends. Zero: its check passes, which it
	// does for as long as --check-ttl after it was heard; or that is not known: it has no check,
	// Consul has taken that away (after a minute), the machine is lost together with its Consul
	// agent, or the reader's token may not read the service's health.
	SilentSince time.Time `json:"silent_since,omitzero"`
	// Warns is what the member says beside its check, if that warns: it cannot write what its work
	// does.
	Warns string `json:"warns,omitempty"`
	// FailedItems is how many items failed here too often and were moved elsewhere since it was
	// registered.
	FailedItems int `json:"failed_items,omitempty"`
}

// StatusWork counts the workload: Total is Owned, Releasing and Free together. Those say what keys
// there are; what the work does is in States.
type StatusWork struct {
	Total     int `json:"total"`
	Owned     int `json:"owned"`
	Releasing int `json:"releasing"`
	Free      int `json:"free"`
	// Removed are items that are no longer in the workload and still have an owner.
	Removed int `json:"removed,omitempty"`
	// States counts the workload by what becomes of each item.
	States map[ItemState]int `json:"states,omitempty"`
}

// Holders says who has what. The ids are in order.
type Holders struct {
	Members []Holder `json:"members"` // all registered ones, and those gone that still hold items
	Free    []string `json:"free"`
	// Quarantined are those of Free that nobody is to run.
	Quarantined []string `json:"quarantined,omitempty"`
}

// Holder is one member and its items.
type Holder struct {
	ID        string   `json:"id"`
	Status    string   `json:"status"` // as in StatusMember
	Own       []string `json:"own"`
	Releasing []string `json:"releasing"`
	// States has those of its items that are not known to run, by state.
	States map[ItemState][]string `json:"states,omitempty"`
}

// StatusGone is the status of a member that holds items and is not registered.
const StatusGone = "gone"

// Status reads what there is to say of the service. The records, assignments
// and orders are read consistently, one after the other: while something moves,
// they may disagree by what moved in between. Of the workload only the names are
// read, for payloads can be large. Errors: [ErrUnreachable], [ErrDenied].
func (c *Client) Status(ctx context.Context) (Status, error) {
	s, _, err := c.Items(ctx)
	return s, err
}

// Items reads Status and what becomes of each item from the same answers: of the items of the
// workload, and of those that were removed and have an owner still, in the order of their ids.
// Errors as for Status.
func (c *Client) Items(ctx context.Context) (Status, []ItemStatus, error) {
	v, err := c.view(ctx, false)
	if err != nil {
		return Status{}, nil, err
	}
	s, _, items := v.describe(time.Now())
	placing := func(i ItemStatus) bool { return i.Cause == CausePlacing }
	limited := func(m StatusMember) bool { return m.Capacity > 0 }
	if slices.ContainsFunc(items, placing) && slices.ContainsFunc(s.Members, limited) {
		c.weigh(ctx, v) // only they tell whether there is room
		s, _, items = v.describe(time.Now())
	}
	return s, items, nil
}

// Look reads Status, Holders and Items from the same answers, with the weights. Those come with the
// payloads, so they are read again only when the workload has changed. Errors as for Status.
func (c *Client) Look(ctx context.Context) (Status, Holders, []ItemStatus, error) {
	v, err := c.view(ctx, false)
	if err != nil {
		return Status{}, Holders{}, nil, err
	}
	c.weigh(ctx, v)
	s, h, items := v.describe(time.Now())
	return s, h, items, nil
}

// describe says it all; now is the time of the reading.
func (v *view) describe(now time.Time) (Status, Holders, []ItemStatus) {
	items, work, loads := v.items()
	s := Status{Service: v.keys.Service(), Members: []StatusMember{}, Work: work,
		Frozen: v.orders.Frozen, Drained: slices.Sorted(maps.Keys(v.orders.Drained)),
		Pins: len(v.orders.Pins), Orders: standing(v.orders), Brake: v.brake,
		Refused: v.note.Refused, Unreadable: v.unreadable}
	if v.leader != "" {
		s.Leader = &StatusLeader{ID: v.leader, Epoch: v.epoch}
	}
	h := Holders{Members: []Holder{}, Free: []string{}}
	for _, id := range slices.Sorted(maps.Keys(loads)) {
		l := loads[id]
		h.Members = append(h.Members, l.Holder)
		has := StatusMember{ID: id, Status: l.Status, Items: len(l.Own) + len(l.Releasing),
			Releasing: len(l.Releasing), States: l.states}
		if l.weight > uint64(has.Items) {
			has.Load = l.weight
		}
		m := v.members[id]
		if m == nil {
			has.Since, has.SilentSince = v.missedSince(id), v.doubt(id, v.acks[id].By).Since
			s.Absent = append(s.Absent, has)
			continue
		}
		has.Address, has.Idle, has.Capacity, has.Zone = m.Address, m.Idle, m.Capacity, m.Zone
		has.Version, has.WorkVersion = m.Version, m.WorkVersion
		has.Lease, has.SilentSince = v.leaseOf(m), m.doubt.Since
		has.Warns = m.doubt.Warns
		_, has.Drained = v.orders.Drained[id]
		for _, f := range v.failed {
			if f.FailsAt(id, m.session, now) {
				has.FailedItems++
			}
		}
		s.Members = append(s.Members, has)
	}
	for _, i := range items {
		if i.Member == "" {
			h.Free = append(h.Free, i.ID)
		}
		if i.State == ItemQuarantined {
			h.Quarantined = append(h.Quarantined, i.ID)
		}
	}
	s.Problems = problems(s, items, now)
	return s, h, items
}

// standing are the orders to freeze and to drain.
func standing(o protocol.Orders) (all []StatusOrder) {
	add := func(order StatusOrder, name string) {
		order.By, order.At = o.By[name], o.At[name]
		all = append(all, order)
	}
	if o.Frozen {
		add(StatusOrder{Kind: "freeze"}, protocol.FreezeOrder)
	}
	for _, m := range slices.Sorted(maps.Keys(o.Drained)) {
		add(StatusOrder{Kind: "drain", Member: m, Deadline: o.Drained[m]}, protocol.DrainOrder(m))
	}
	return all
}
