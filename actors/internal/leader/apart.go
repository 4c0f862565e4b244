package leader

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// An order that Consul, or something before it, does not take may stand in a transaction with
// others: they are sent without it, until one is left that is to blame. That one waits.

// apart is an order that was in vain, with others or alone.
type apart struct {
	// doubts is how often in a row its outcome was not known, though Consul took the new epoch
	doubts int
	// refusals is how often in a row a condition of its own did not hold, read anew each time.
	refusals int
	session  string // of the grant that was refused: one under another session has other conditions
	most     int    // orders in a transaction with it; 0: any
	bare     error  // with this it was in vain when it was alone: it is sent without the event log
	aside           // how often in a row it was in vain alone
	// denied: the write of its assignments was denied to this order alone, and no assignment was
	// written since.
	denied bool
}

// mostInVain is how many orders are sent alone, one after the other, that change nothing.
const mostInVain = 8

// possible takes out of units those that were in vain: one that waits has its turn at retry, the
// others go in groups, those first that were in vain least often.
func (a *Assigner) possible(units []store.Unit, now time.Time) (rest []store.Unit,
	groups [][]store.Unit, retry time.Time) {
	if len(a.apart) == 0 {
		return units, nil, time.Time{}
	}
	still, most := map[string]*apart{}, 0
	for _, u := range units {
		o := u.Tag.(order)
		key := o.key(a.Keys)
		x := a.apart[key]
		if x != nil && x.refusals > 0 && o.session != "" && x.session != o.session {
			delete(a.apart, key)
			x = nil
		}
		if x != nil {
			still[key] = x
		}
		switch {
		case x == nil || x.most == 0:
			rest = append(rest, u)
		case x.until.After(now):
			retry = actor.Earliest(retry, x.until)
		case len(groups) > 0 && len(groups[len(groups)-1]) < min(most, x.most):
			last := &groups[len(groups)-1]
			*last, most = append(*last, u), min(most, x.most)
		default:
			groups, most = append(groups, []store.Unit{u}), x.most
		}
	}
	for key, x := range a.apart {
		if still[key] == nil && !x.until.After(now) {
			delete(a.apart, key) // nobody orders it any more
		}
	}
	doubts := func(group []store.Unit) (n int) {
		for _, u := range group {
			x := a.apart[u.Tag.(order).key(a.Keys)]
			if n = max(n, x.doubts); x.bare != nil {
				return -1 // it tells of all the others
			}
		}
		return n
	}
	slices.SortStableFunc(groups, func(x, y []store.Unit) int { return doubts(x) - doubts(y) })
	return rest, groups, retry
}

// rests tells whether an order waits.
func (a *Assigner) rests(u store.Unit) bool {
	x := a.apart[u.Tag.(order).key(a.Keys)]
	return x != nil && x.until.After(time.Now())
}

// key is the assignment key that an order is about.
func (o order) key(keys protocol.Keys) string {
	if o.kind == orderForget {
		return keys.Quarantine(o.item)
	}
	if o.to != "" {
		return keys.Assignment(o.to, o.item)
	}
	return keys.Assignment(o.from, o.item)
}

func (a *Assigner) setApart(o order) *apart {
	key := o.key(a.Keys)
	if a.apart[key] == nil {
		a.apart[key] = &apart{}
	}
	return a.apart[key]
}

// refused takes in that an order was denied or called invalid, with so many sent.
func (a *Assigner) refused(o order, err error, sent int) {
	x := a.setApart(o)
	x.most = 1
	switch {
	case sent > 1: // it is sent alone
	case o.kind == orderSweep && !a.build.kept[o.from]:
		a.build.kept[o.from] = true // and tried without: nothing rests on a summary
	case o.kind != orderSweep && a.events.mayBeToBlame():
		x.bare = err
	default:
		x.bare = nil
		a.odd.Skip(store.Entry{Key: o.key(a.Keys)}, err.Error())
		x.until = time.Now().Add(impossiblePause)
		x.denied = errors.Is(err, store.ErrDenied) && o.assigns()
	}
}

// assigns tells whether an order writes assignments and nothing else of which it could be denied.
func (o order) assigns() bool {
	return o.kind != orderSweep && o.kind != orderForget && o.note == nil
}

// deniedAssignments is what a leader is hindered by that may write no assignments.
const deniedAssignments = "writes of assignments, which are denied"

// wrote takes in that an order was carried out. Where assignments can be written, what is denied
// concerns its own item alone.
func (a *Assigner) wrote(o order) {
	delete(a.apart, o.key(a.Keys))
	if o.assigns() {
		for _, x := range a.apart {
			x.denied = false
		}
	}
}

// tellDenied tells whether all writes of assignments seem to be denied to this leader, by what is
// drafted now: those of several items at several members, and none was written since. Another
// leader may have the right. What is denied of one item, or of one member, is so for all leaders as
// a rule, and concerns that alone. What is taken over from a lost member counts for who gets it: it
// has no owner, and a leadership that moves costs less.
func (a *Assigner) tellDenied(drafted []store.Unit) {
	items, members := map[string]bool{}, map[string]bool{}
	for _, u := range drafted {
		o := u.Tag.(order)
		if x := a.apart[o.key(a.Keys)]; x == nil || !x.denied {
			continue
		}
		items[o.item], members[cmp.Or(o.to, o.from)] = true, true
	}
	if len(items) > 1 && len(members) > 1 {
		_ = deniedAssignments
	}
}

// ofUnit tells whether the condition that refused is one of the unit's.
func ofUnit(r *store.RefusedError, u store.Unit) bool {
	return r.Op >= 0 || slices.ContainsFunc(u.Shared,
		func(op store.Op) bool { return op.Key() == r.Key })
}

// outdated takes in that a condition of an order did not hold, with so many sent. That happens to
// any order once: it is drafted anew, upon what is read. An order to which it happens again and
// again goes alone, for it takes all that it goes with along; alone, it waits longer each time.
func (a *Assigner) outdated(o order, err error, began time.Time, sent int) {
	x := a.setApart(o)
	x.session = cmp.Or(o.session, x.session)
	if x.refusals++; x.refusals <= mostInRow {
		return
	}
	if x.most = 1; sent > 1 {
		return
	}
	a.odd.Skip(store.Entry{Key: o.key(a.Keys)}, err.Error())
	x.failed(began, time.Now())
	a.ladder.Reset() // the others need not wait as long
}

// writeApart sends a group, the event log's record with it unless that may be to blame.
func (a *Assigner) writeApart(ctx context.Context, group []store.Unit) error {
	key := group[0].Tag.(order).key(a.Keys)
	x := a.apart[key]
	if x == nil || x.bare == nil || len(group) > 1 || a.events.off {
		return a.write(ctx, group)
	}
	a.events.bare = true
	err := a.write(ctx, group)
	if a.events.bare = false; err == nil && a.apart[key] == nil {
		a.events.turnOff(a, x.bare)
		clear(a.apart) // what was blamed need not have been
	}
	return err
}

// inDoubt takes in the orders of which it is not known what came of them. That happens to all alike
// when Consul elects. When it happens again after it took the new epoch, they are sent in smaller
// and smaller groups; one that is left alone waits, longer each time.
func (a *Assigner) inDoubt(unknown []store.Outcome, began time.Time) {
	var events error
	unknown = slices.DeleteFunc(unknown, func(o store.Outcome) bool {
		if !errors.Is(o.Err, store.ErrUnreachable) || !store.OutcomeUnknown(o.Err) {
			return true
		}
		if o.Unit.Tag.(order).kind == orderEvents {
			events = o.Err
			return true
		}
		return false
	})
	if events != nil {
		if a.events.doubts++; a.events.doubts > mostInRow && len(unknown) == 0 {
			a.events.turnOff(a, events)
		}
	}
	for _, o := range unknown {
		what := o.Unit.Tag.(order)
		x := a.setApart(what)
		if x.doubts++; x.doubts == 1 {
			continue
		}
		x.most = (len(unknown) + 3) / 4
		switch {
		case len(unknown) > 1:
		case what.kind == orderSweep && !a.build.kept[what.from]:
			a.build.kept[what.from] = true // as above
		case what.kind != orderSweep && (x.tries > mostInRow || x.tries > 0 &&
			errors.Is(o.Err, store.ErrNoAnswer)) && a.events.mayBeToBlame():
			x.bare = o.Err
		default:
			a.odd.Skip(store.Entry{Key: what.key(a.Keys)}, o.Err.Error())
			x.bare = nil
			x.failed(began, time.Now())
			a.ladder.Reset() // the others need not wait as long
		}
	}
}
