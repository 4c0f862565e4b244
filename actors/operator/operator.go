// Package operator is what people and programs do with a service from outside: they look at its
// members and items, change its workload and give orders to its leader.
//
//	op, err := operator.New(client, "demo")
//	if err != nil {
//		return err
//	}
//	err = op.AddWork(ctx, operator.WorkInput{ID: "device_1"})
//
// A [Client] needs Consul and no member: it reads and writes the keys of the service. The command
// line, the page and the metrics say what its calls say.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// The kinds of failure that a [Client] returns, to be told apart with errors.Is. Their texts say
// what to do.
var (
	// ErrNotFound is returned for items and members that are not there; the text names them.
	ErrNotFound = store.ErrNotFound
	// ErrUnreachable is returned when Consul gave no answer, or none that can be used.
	ErrUnreachable = store.ErrUnreachable
	// ErrNoAnswer is returned, along with ErrUnreachable, when nothing came back in time, not even
	// an error.
	ErrNoAnswer = store.ErrNoAnswer
	// ErrTooManyConns is returned, along with ErrUnreachable, when Consul takes no more connections
	// from this host's address.
	ErrTooManyConns = store.ErrTooManyConns
	// ErrDenied is returned when the token lacks a permission; the text names it.
	ErrDenied = store.ErrDenied
	// ErrInvalid is returned for ids and payloads that cannot be; nothing was written.
	ErrInvalid = store.ErrInvalid
)

// Client is the other side of a service: it looks at the whole of it and
// changes the workload and the orders to its leader. It is no member and holds no
// session. It is safe for concurrent use.
//
// Every read and write is tried once, with a deadline of its own (10 s, which an election among
// Consul's servers takes at most; 100 s for a whole prefix), but for [Client.Reach]. Writes of
// the workload go one after the other, and so do orders; one that meets another operator's is tried
// again until ctx ends. A write takes effect once at most, also when a second copy of its request
// arrives at any later moment; and one whose outcome was not known has no effect any more once a
// later one, of any operator, has succeeded. A transport of the host's that panics, or that ends
// its goroutine, costs the call alone: it returns [ErrUnreachable].
type Client struct {
	store   *protocol.Store
	keys    protocol.Keys
	work    *store.Once
	control *store.Once
	locate  routing.Config
	by      string // who gives the orders; empty: they do not say
}

// operatorTimeout is the deadline of an operator's call. Nothing is lost while it lasts, unlike
// with a member's.
const operatorTimeout = 10 * time.Second

// New returns a client for the operators of a service. A nil client means one made
// from the CONSUL_HTTP_* variables. It asks Consul nothing yet. Errors: [ErrInvalid].
func New(client *api.Client, service string) (*Client, error) {
	client, err := store.ClientOr(client)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := protocol.New(service, store.Config{Client: client, Logger: log,
		CallTimeout: operatorTimeout})
	if err != nil {
		return nil, err
	}
	k := s.Keys()
	return &Client{store: s, keys: k, work: store.NewOnce(s, k.Sequence("work")),
		control: store.NewOnce(s, k.Sequence("control")),
		locate:  routing.Config{Service: service, Client: client, Logger: log}}, nil
}

// Reach asks Consul until it answers, fails with something that waiting does
// not help, or ctx ends; then the error is that of the last try.
func (c *Client) Reach(ctx context.Context) error {
	return store.Retry(ctx, c.store, "leader key", func(ctx context.Context) error {
		_, _, _, err := c.store.Get(ctx, c.keys.Leader(), store.Default)
		return err
	})
}

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
	// Strange are keys that this version cannot read; they are skipped. At most ten are named.
	Strange []string `json:"strange,omitempty"`
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
	Zone     string `json:"zone,omitempty"`
	Version  string `json:"version,omitempty"`
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
	// FailedItems is how many items failed here too often and were moved elsewhere since it was
	// registered. With three of them it gets no more.
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
	s, _, _, err := c.look(ctx, false)
	return s, err
}

// Holders reads who has what. Errors as for Status.
func (c *Client) Holders(ctx context.Context) (Holders, error) {
	_, h, _, err := c.look(ctx, false)
	return h, err
}

// Look reads Status, Holders and Items from the same answers. Errors as for Status.
func (c *Client) Look(ctx context.Context) (Status, Holders, []ItemStatus, error) {
	return c.look(ctx, false)
}

// Items reads Status and what becomes of each item from the same answers: of the items of the
// workload, and of those that were removed and have an owner still, in the order of their ids.
// Errors as for Status.
func (c *Client) Items(ctx context.Context) (Status, []ItemStatus, error) {
	s, _, items, err := c.look(ctx, false)
	return s, items, err
}

// look reads the service; weighed: with the weights of the items, and so with their payloads.
func (c *Client) look(ctx context.Context, weighed bool) (Status, Holders, []ItemStatus, error) {
	p := serviceState{keys: c.keys, weighed: weighed}
	err := p.read(ctx, c.store)
	if err != nil {
		return Status{}, Holders{}, nil, fmt.Errorf("looking at service %q: %w", c.keys.Service(),
			err)
	}
	status, holders, items := p.describe(time.Now())
	return status, holders, items, nil
}

// serviceState is what Consul holds of a service: the entries of its keys, unparsed.
type serviceState struct {
	keys        protocol.Keys
	leader      store.Entry
	leaderState store.Entry
	members     []store.Entry
	assignments []store.Entry
	acks        []store.Entry
	work        []store.Entry // without values, unless weighed
	weighed     bool
	control     []store.Entry
	states      []store.Entry
	quarantines []store.Entry
	strange     []string
	silent      map[string]time.Time // by instance: see SilentInstances of [store.Store]
}

func (p *serviceState) read(ctx context.Context, s *protocol.Store) error {
	list := func(prefix string, into *[]store.Entry) (err error) {
		*into, _, err = s.List(ctx, prefix, store.Consistent)
		return err
	}
	var err error
	if p.leader, _, _, err = s.Get(ctx, p.keys.Leader(), store.Consistent); err != nil {
		return err
	}
	if p.leaderState, _, _, err = s.Get(ctx, p.keys.LeaderState(), store.Consistent); err != nil {
		return err
	}
	if err = list(p.keys.Members(), &p.members); err != nil {
		return err
	}
	if err = list(p.keys.Control(), &p.control); err != nil {
		return err
	}
	if err = list(p.keys.Acks(), &p.acks); err != nil {
		return err
	}
	if p.weighed {
		if err = list(p.keys.Workload(), &p.work); err != nil {
			return err
		}
	} else {
		names, _, err := s.ListKeys(ctx, p.keys.Workload(), "")
		if err != nil {
			return err
		}
		for _, name := range names {
			p.work = append(p.work, store.Entry{Key: name})
		}
	}
	// Before the assignments: a key that is younger than its owner's summary shows by its index.
	if err = list(p.keys.States(), &p.states); err != nil {
		return err
	}
	if err = list(p.keys.Quarantines(), &p.quarantines); err != nil {
		return err
	}
	if err = list(p.keys.Assignments(), &p.assignments); err != nil {
		return err
	}
	// Without it no more is missing than since when somebody is silent.
	p.silent, _ = s.SilentInstances(ctx, p.keys.Service())
	return nil
}

func (p *serviceState) odd(e store.Entry, _ string) {
	if len(p.strange) < 10 {
		p.strange = append(p.strange, store.Shorten(e.Key))
	}
}

// describe says it all of the entries that were read; now is the time of the reading.
func (p *serviceState) describe(now time.Time) (Status, Holders, []ItemStatus) {
	s := Status{Service: p.keys.Service(), Members: []StatusMember{}}
	v := p.view(p.odd)
	if v.leader != "" {
		s.Leader = &StatusLeader{ID: v.leader, Epoch: p.leader.ModifyIndex}
	}
	s.Frozen, s.Drained, s.Pins = v.orders.Frozen, slices.Sorted(maps.Keys(v.orders.Drained)),
		len(v.orders.Pins)
	s.Orders = standing(v.orders)
	s.Brake, s.Refused = v.brake, v.note.Refused
	holders := map[string]*Holder{}
	for _, id := range slices.Sorted(maps.Keys(v.members)) {
		m := v.members[id]
		s.Members = append(s.Members, StatusMember{
			ID: m.ID, Address: m.Address, Status: m.Status, Idle: m.Idle, Capacity: m.Capacity,
			Zone: m.Zone, Version: m.Version, WorkVersion: m.WorkVersion,
			Drained: slices.Contains(s.Drained, m.ID),
			Lease:   v.leaseOf(m), SilentSince: m.silent,
		})
		holders[m.ID] = &Holder{ID: m.ID, Status: m.Status}
	}
	for i := range s.Members {
		m := &s.Members[i]
		for _, f := range v.failed {
			if f.FailsAt(m.ID, v.members[m.ID].session, now) {
				m.FailedItems++
			}
		}
	}
	p.count(v, &s, holders)
	items, states, at := v.items()
	s.Work.States = states
	all := Holders{Members: []Holder{}, Free: []string{}}
	for i := range s.Members {
		m := &s.Members[i]
		h := holders[m.ID]
		m.Items, m.Releasing, m.States = len(h.Own)+len(h.Releasing), len(h.Releasing), at[m.ID]
		all.Members = append(all.Members, *h)
		delete(holders, h.ID)
	}
	for _, h := range holders {
		s.Absent = append(s.Absent, StatusMember{ID: h.ID, Status: h.Status, Items: len(h.Own) +
			len(h.Releasing), Releasing: len(h.Releasing), States: at[h.ID],
			Since: v.missedSince(h.ID), SilentSince: p.silentSince(h.ID, v.acks[h.ID].By)})
		all.Members = append(all.Members, *h)
	}
	slices.SortFunc(s.Absent, func(a, b StatusMember) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(all.Members, func(a, b Holder) int { return strings.Compare(a.ID, b.ID) })
	place := map[string]int{}
	for i := range all.Members {
		h := &all.Members[i]
		h.Own, h.Releasing = orEmpty(h.Own), orEmpty(h.Releasing)
		place[h.ID] = i
	}
	for _, i := range items {
		if i.Member == "" {
			all.Free = append(all.Free, i.ID)
			if i.State == ItemQuarantined {
				all.Quarantined = append(all.Quarantined, i.ID)
			}
		} else if i.State != ItemRunning {
			n, there := place[i.Member]
			if !there {
				continue // its only key cannot be read
			}
			h := &all.Members[n]
			if h.States == nil {
				h.States = map[ItemState][]string{}
			}
			h.States[i.State] = append(h.States[i.State], i.ID)
		}
	}
	s.Strange = p.strange
	s.Problems = problems(s, items, now)
	return s, all, items
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

// silentSince is when a process of a member was heard last, if its check has run out.
func (p *serviceState) silentSince(member string, by protocol.Process) time.Time {
	if by.Instance == "" {
		return time.Time{}
	}
	return p.silent[store.InstanceID(p.keys.Service(), member, by.Instance)]
}

// count counts the keys of the items, and says who has which.
func (p *serviceState) count(v *view, s *Status, holders map[string]*Holder) {
	s.Work.Total = len(v.work)
	owned := map[string]bool{}
	for _, a := range v.keys {
		if a.Unreadable {
			continue // its member gives it up
		}
		m, w := a.Member, a.Item
		h := holders[m]
		if h == nil {
			h = &Holder{ID: m, Status: StatusGone}
			holders[m] = h
		}
		if a.State == protocol.StateRel {
			h.Releasing = append(h.Releasing, w)
		} else {
			h.Own = append(h.Own, w)
		}
		switch {
		case !v.work[w]:
			s.Work.Removed++
		case owned[w]:
			// a second owner: the protocol does not do that
			p.odd(store.Entry{Key: p.keys.Assignment(m, w)}, "")
		case a.State == protocol.StateRel:
			s.Work.Releasing++
			owned[w] = true
		default:
			s.Work.Owned++
			owned[w] = true
		}
	}
	s.Work.Free = s.Work.Total - s.Work.Owned - s.Work.Releasing
}

// orEmpty keeps null out of the JSON.
func orEmpty(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}

// Locate tells where an item is worked on, by reading Consul: two reads, and one for each member.
// Errors: [routing.ErrMoving], [routing.ErrNoOwner], [routing.ErrUnknownItem], [ErrInvalid],
// [ErrUnreachable], [ErrDenied].
func (c *Client) Locate(ctx context.Context, item string) (routing.Location, error) {
	loc, err := routing.Find(ctx, c.locate, item)
	if err != nil {
		return routing.Location{}, advice(fmt.Sprintf("locating in service %q", c.keys.Service()),
			err)
	}
	return loc, nil
}

// write applies ops in one transaction under a sequence key of the operators: the workload and the
// orders have one each, for all operators of the service. It takes effect at most once.
func (c *Client) write(ctx context.Context, once *store.Once, ops ...store.Op) error {
	_, err := once.Txn(ctx, c.keys.Sign(c.by, ops)...)
	return err
}

// stamp is how an order says when it was given; a value that is new is also what
// makes a repeated order a change that the leader sees.
func stamp() []byte { return []byte(time.Now().UTC().Format(time.RFC3339Nano)) }

// advice adds to an error of the store's what the operator was about.
func advice(doing string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// CheckID tells what is wrong with the id of a member or an item; nil: nothing.
// An id is not empty, holds no '/', no control character, and is at most 256 bytes long.
func CheckID(id string) error { return protocol.CheckID("id", id) }
