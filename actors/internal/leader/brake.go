package leader

import (
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
)

// The brake: when most of the workload, or most of the members, vanish in one step, that is more
// often a Consul that came back empty, a deleted prefix or a split than somebody's wish. The leader
// then writes nothing and says so. What "most" is measured against are the assignment keys, which
// are there for every new leader too.
//
// In one step is within 4 x Merge, for which keys of items that are gone wait. What vanishes more
// slowly is taken for somebody's wish. A new leader measures anew.
const (
	brakeItems   = 10 // this many items may always go at once
	brakeMembers = 3  // and this many members
)

// brakeCause says why a brake is on.
type brakeCause uint8

const (
	brakeOff brakeCause = iota
	brakeForItems
	brakeForMembers
)

// overrideWindow: an override counts for the first plan after it, however long what that is made of
// takes to read. Beyond that, an override that arrives up to this long before the brake still
// releases it. coordd work rm writes both keys, and the two watches may report them in either
// order.
const overrideWindow = 10 * time.Second

const frozen = "an operator froze the assignments (control/freeze)"

// brake is the state of the brake after a plan. The zero value is off.
type brake struct {
	cause brakeCause
	text  string    // why nothing is written, also for a freeze, which is no brake; empty: it is off
	since time.Time // of this text
	// freed is what an operator has released: items that are gone from the workload, by place of
	// the key, and members that have vanished. It stays until all of it has been done. What goes
	// meanwhile is no part of it.
	freed map[string]bool
	seen  time.Time // when the last override was given that a plan has heeded
}

// next is the brake after these inputs. A workload's brake holds until the items are back or an
// operator overrides it. The members' also lets go by itself after the hold: their items have no
// owner meanwhile.
func (k brake) next(in *inputs, b *board, p *plan) brake {
	override := k.overridden(in)
	next := brake{freed: map[string]bool{}, seen: in.control.OverrideAt}
	for _, key := range vanished(b) {
		if override || k.freed[key] {
			next.freed[key] = true
		}
	}
	next.cause, next.text = k.forItems(in, b, p, next.freed)
	if next.cause == brakeOff {
		next.cause, next.text = k.forMembers(in, b, p, next.freed)
	}
	if next.cause == brakeOff && in.control.Freeze {
		next.text = frozen
		return next // an override is not about a freeze
	}
	if next.cause != brakeOff {
		if next.since = k.since; next.text != k.text {
			next.since = in.now
		}
	}
	return next
}

// overridden tells whether an operator says that what is gone now is meant.
func (k brake) overridden(in *inputs) bool {
	given := in.control.OverrideAt
	if given.IsZero() {
		return false
	}
	return !given.Equal(k.seen) || in.now.Sub(given) < overrideWindow ||
		!k.since.IsZero() && given.After(k.since.Add(-overrideWindow))
}

// vanished names what is gone: keys of items, and members.
func vanished(b *board) []string {
	var all []string
	for _, ref := range b.removed {
		all = append(all, ref.member+"/"+ref.item)
	}
	return append(all, b.lost...)
}

// forItems is the brake for items that are gone. Once it is on it holds until few are missing and
// nothing changes any more: items that are put back one by one must not lose the rest halfway.
func (k brake) forItems(in *inputs, b *board, p *plan, freed map[string]bool) (brakeCause,
	string) {
	n := 0
	for _, ref := range b.removed {
		if !freed[ref.member+"/"+ref.item] {
			n++
		}
	}
	keyed := b.keyed - (len(b.removed) - n)
	on := k.cause == brakeForItems
	if n > brakeItems && (on || 2*n > keyed) || n > 0 && on && !in.balance {
		p.waiting = p.waiting || !in.balance
		return brakeForItems, fmt.Sprintf("%d of %d assigned items are gone from the workload: "+
			"put them back (coordd work import), or say that it is meant (coordd override)", n,
			keyed)
	}
	return brakeOff, ""
}

// forMembers is the brake for members that are gone.
func (k brake) forMembers(in *inputs, b *board, p *plan, freed map[string]bool) (brakeCause,
	string) {
	holders, n, last := b.holders, 0, time.Time{} // last: when one was confirmed, or missed
	for _, id := range b.lost {
		away := in.absent[id]
		if freed[id] {
			holders--
			continue
		}
		n++
		if last = actor.Latest(last, away.since); away.since.IsZero() {
			last = actor.Latest(last, away.asked)
		}
	}
	until := last.Add(in.hold)
	if n <= brakeMembers || k.cause == brakeOff && 2*n <= holders ||
		!last.IsZero() && !in.now.Before(until) {
		return brakeOff, ""
	}
	if !last.IsZero() {
		p.wake = actor.Earliest(p.wake, until)
	}
	return brakeForMembers, fmt.Sprintf("%d of %d members with work have vanished: their items "+
		"wait for them for %v, or until an operator says that it is meant (coordd override)", n,
		holders, in.hold.Round(time.Second))
}
