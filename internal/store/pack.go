package store

import (
	"errors"
	"slices"
)

func asRefusals(err error) (*refusals, bool) { return errors.AsType[*refusals](err) }

// packed is one transaction of a batch: the guard and the sequence key, shared conditions, then the
// operations of its units.
type packed struct {
	ops    []Op
	head   int // how many of them are of every transaction
	spare  int // operations that room is kept for beside them
	units  []place
	after  []*packed // transactions of its lanes that come before
	done   bool
	behind int // transactions that wait for this one, and for those in turn

	shared  map[condition]Op
	size    int  // the most that the body can have
	latest  []Op // the conditions of the unit added last
	partial bool // holds a part of a lane that began before it
}

// place is where a unit's operations are.
type place struct{ unit, first int }

func (t *packed) ready() bool {
	return !slices.ContainsFunc(t.after, func(before *packed) bool { return !before.done })
}

// measured is a unit that was checked, with the room that its operations take.
type measured struct {
	unit        int
	shared, ops []Op
	size        int // of ops
}

// pack puts units into transactions, in order. A run of units of one lane that
// fits into a transaction is not split, and never two lanes that are split
// share one: so the only transactions that wait for each other are those of one
// large lane. Units that can never be sent are reported to bad and left out.
//
// Of the plans that fill transactions better some would chain all lanes
// together and leave nothing to have in flight.
//
// In each transaction room is kept for the operations in spare.
func pack(head, spare []Op, units []Unit, bad func(unit int, err error)) []*packed {
	p := packer{empty: packed{ops: head, head: len(head), spare: len(spare), size: len("[]\n")},
		last: map[string]*packed{}}
	for _, op := range slices.Concat(head, spare) {
		p.empty.size += op.most()
	}
	var run []measured
	for i := 0; i < len(units); {
		lane := units[i].Lane
		run = run[:0]
		for ; i < len(units) && units[i].Lane == lane; i++ {
			e, err := measure(i, units[i])
			if err == nil && !p.empty.fits(e) {
				_, size, _ := p.empty.cost(e, map[condition]Op{})
				err = Invalid("guarded txn",
					"a unit of %d operations and %d bytes does not fit into one transaction (%d "+
						"operations and %d bytes with the guard, the sequence key and values in "+
						"base64); make it smaller",
					len(e.ops), size, MaxOps, MaxBodyBytes)
			}
			if err != nil {
				bad(i, err)
				continue
			}
			run = append(run, e)
		}
		p.place(lane, run)
	}
	for _, t := range slices.Backward(p.txns) {
		for _, before := range t.after {
			before.behind = max(before.behind, t.behind+1)
		}
	}
	return p.txns
}

func measure(i int, u Unit) (measured, error) {
	e := measured{unit: i, shared: u.Shared, ops: u.Ops}
	if !slices.ContainsFunc(u.Ops, Op.writes) {
		return e, Invalid("guarded txn", "a unit has no operation that writes")
	}
	for _, op := range u.Shared {
		if err := op.check(); err != nil {
			return e, err
		}
		if op.writes() || op.reads() {
			return e, Invalid("guarded txn", "%v is no condition and cannot be shared", op)
		}
	}
	for _, op := range u.Ops {
		if err := op.check(); err != nil {
			return e, err
		}
		e.size += op.most()
	}
	return e, nil
}

type packer struct {
	empty packed // a transaction with the guard and the sequence key alone
	txns  []*packed
	last  map[string]*packed // lane -> its last transaction
}

// open begins a transaction, with room for as many units of one operation.
func (p *packer) open(units int) *packed {
	room := min(len(p.empty.ops)+units+p.empty.spare, MaxOps)
	t := &packed{ops: append(make([]Op, 0, room), p.empty.ops...), head: p.empty.head,
		spare: p.empty.spare, size: p.empty.size}
	p.txns = append(p.txns, t)
	return t
}

// place adds a run of one lane.
func (p *packer) place(lane string, run []measured) {
	if len(run) == 0 {
		return
	}
	var t *packed
	if len(p.txns) > 0 {
		t = p.txns[len(p.txns)-1]
	}
	switch {
	case t != nil && t.fits(run...): // whole, beside what is there
	case t != nil && !t.partial && !p.empty.fits(run...): // its head fills t up
	default:
		t = p.open(len(run))
	}
	for i, e := range run {
		if !t.fits(e) {
			t = p.open(len(run) - i)
			t.partial = true
		}
		if before := p.last[lane]; before != nil && before != t &&
			!slices.Contains(t.after, before) {
			t.after = append(t.after, before)
		}
		p.last[lane] = t
		t.add(e)
	}
}

// cost returns how many operations and bytes e would add to t beyond what
// seen and t have already. It is not ok when e asks the opposite of a condition
// that is there: together they would refuse each other.
func (t *packed) cost(e measured, seen map[condition]Op) (ops, size int, ok bool) {
	if t.has(e.shared) {
		return len(e.ops), e.size, true
	}
	for _, op := range e.shared {
		have, there := t.shared[op.condition()]
		if !there {
			have, there = seen[op.condition()]
		}
		if !there {
			seen[op.condition()] = op
			ops, size = ops+1, size+op.most()
		} else if have.kv.Index != op.kv.Index || have.kv.Session != op.kv.Session {
			return 0, 0, false
		}
	}
	return ops + len(e.ops), size + e.size, true
}

// has reports whether shared is the very slice that the unit before came with:
// the usual case, which spares 100,000 units the look into the map.
func (t *packed) has(shared []Op) bool {
	return len(shared) == len(t.latest) && (len(shared) == 0 || &shared[0] == &t.latest[0])
}

// fits reports whether all of run can be added to t.
func (t *packed) fits(run ...measured) bool {
	ops, size := len(t.ops), t.size
	seen := map[condition]Op{}
	for _, e := range run {
		n, more, ok := t.cost(e, seen)
		if ops, size = ops+n, size+more; !ok || ops > MaxOps-t.spare || size > MaxBodyBytes {
			return false
		}
	}
	return true
}

// add puts the new conditions behind the others, before all units, and the
// operations at the end.
func (t *packed) add(e measured) {
	for _, op := range e.shared {
		if t.has(e.shared) {
			break
		}
		if _, there := t.shared[op.condition()]; there {
			continue
		}
		if t.shared == nil {
			t.shared = map[condition]Op{}
		}
		at := t.head + len(t.shared)
		t.shared[op.condition()] = op
		t.ops = slices.Insert(t.ops, at, op)
		t.size += op.most()
		for j := range t.units {
			t.units[j].first++
		}
	}
	t.latest = e.shared
	t.units = append(t.units, place{unit: e.unit, first: len(t.ops)})
	t.ops = append(t.ops, e.ops...)
	t.size += e.size
}
