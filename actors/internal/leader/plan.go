package leader

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// plan is what the leader is to write, given its inputs, when to plan again, and what to say.
type plan struct {
	orders []order // by member, then item
	says   facts.Distribution
	// waiting: there is something to place or to move once it has been quiet long enough.
	waiting   bool
	wake      time.Time // when time alone changes the plan; zero: never
	later     time.Time // the same, for what nobody waits for
	brake     brake
	onTheMove map[string]time.Time // items, and since when
	doubles   []string             // items with more than one key: somebody else wrote one
}

// plan decides.
func (in *inputs) plan() plan {
	var p plan
	b := in.newBoard(&p)
	p.doubles = b.doubles
	in.count(&p, b)
	p.brake = in.brake.next(in, b, &p)
	if p.brake.text != "" {
		p.says.Brake, p.says.Frozen = p.brake.text, p.brake.cause == brakeOff
		return p
	}
	in.takeBack(&p, append(b.extra, in.gone(&p, b)...), reasonRemoved)
	in.takeBack(&p, b.barred, reasonQuarantined)
	in.sweep(&p)
	in.writeAnew(&p, b)
	failed := in.takeFailing(&p, b)
	in.forget(&p, failed)
	placed := b.compute()
	in.countUnplaced(&p, placed)
	moving := in.move(&p, b, placed)
	in.callBack(&p, b, moving)
	in.passOn(&p, b, moving)
	// The planner's moves often come in this order already.
	if !slices.IsSortedFunc(p.orders, byMemberThenItem) {
		slices.SortStableFunc(p.orders, byMemberThenItem)
	}
	p.says.Settled = len(p.orders) == 0 && !p.waiting && p.says.Releasing == 0 && p.wake.IsZero()
	return p
}

func byMemberThenItem(x, y order) int {
	return cmp.Or(strings.Compare(x.lane(), y.lane()), strings.Compare(x.item, y.item))
}

// count fills in what the plan says of the present.
func (in *inputs) count(p *plan, b *board) {
	shares := map[string]facts.Share{}
	p.onTheMove = map[string]time.Time{}
	for id := range in.members.IDs() {
		shares[id] = facts.Share{}
	}
	owned := func(ref keyRef, weight uint64) {
		share := shares[ref.member]
		share.Items++
		share.Weight += weight
		if ref.Releasing {
			share.Releasing++
			p.says.Releasing++
		} else {
			p.says.Owned++
		}
		shares[ref.member] = share
	}
	for i, item := range b.items {
		if item.Owner == placement.None {
			p.says.Free++ // a vanished member's, whose grace is over, too
			continue
		}
		owned(b.keys[i], item.Weight)
		if b.keys[i].Releasing {
			since, known := in.onTheMove[item.ID]
			if !known {
				since = in.now
			}
			p.onTheMove[item.ID] = since
		}
	}
	p.says.Quarantined = len(b.free)
	for _, ref := range b.barred {
		if !in.members.Has(ref.member) { // a vanished member's, whose grace is over
			p.says.Quarantined++
			continue
		}
		w, _ := in.workload.Get(ref.item)
		owned(ref, w.Weight)
	}
	p.says.Total, p.says.Owned = in.workload.Len(), p.says.Owned+b.waiting
	p.says.Waiting, p.says.Lost = b.waiting, len(b.lost)
	p.says.Shares = messages.TableOf(shares)
	p.says.At = in.now
}

// countUnplaced adds what the placement says of the future.
func (in *inputs) countUnplaced(p *plan, placed placement.Outcome) {
	p.says.Unplaced = len(placed.Unplaced)
	for j, load := range placed.Loads {
		id, _ := in.members.At(j)
		share, _ := p.says.Shares.Get(id)
		p.says.Excess += share.Weight - min(share.Weight, load)
	}
}

// gone are the keys of items that are no longer in the workload, once changes have come to rest:
// more may follow, until it is most of the workload.
func (in *inputs) gone(p *plan, b *board) []keyRef {
	if in.place {
		return b.removed
	}
	p.waiting = p.waiting || len(b.removed) > 0
	return nil
}

// revoke has the owner give an item up.
func (p *plan) revoke(ref keyRef, why reason) {
	p.orders = append(p.orders, order{kind: orderRevoke, item: ref.item, from: ref.member,
		key: ref.Assignment, reason: why})
}

// takeBack takes keys away: those of members that are there by asking them to, those of vanished
// ones when their grace is over.
func (in *inputs) takeBack(p *plan, keys []keyRef, why reason) {
	for _, ref := range keys {
		m, present := in.members.Get(ref.member)
		away := in.absent[ref.member]
		switch {
		case present && !ref.Releasing && !m.Leaving:
			p.revoke(ref, why)
		case !present && away.over(in.now):
			p.orders = append(p.orders, order{kind: orderErase, item: ref.item, from: ref.member,
				key: ref.Assignment, ack: away.ack, reason: why})
		}
	}
}

// sweep deletes what vanished members leave that hold nothing, when their grace is over.
func (in *inputs) sweep(p *plan) {
	for id, away := range in.absent {
		if _, holds := in.assigned[id]; holds || away.since.IsZero() {
			continue
		}
		if away.over(in.now) {
			p.orders = append(p.orders, order{kind: orderSweep, from: id, ack: away.ack})
		} else {
			p.wake = actor.Earliest(p.wake, away.ends())
		}
	}
}

// writeAnew takes back the keys that somebody else wrote over: they are granted anew.
func (in *inputs) writeAnew(p *plan, b *board) {
	for i, ref := range b.keys {
		if b.items[i].Owner == placement.None || ref.Releasing {
			continue
		}
		m, _ := in.members.Get(ref.member)
		switch {
		case ref.Unreadable:
			p.revoke(ref, reasonUnreadable)
		case addressedToNobody(ref.Assignment, m):
			p.revoke(ref, reasonNotAddressed)
		default:
			continue
		}
		b.items[i].Leaving = true
	}
}

// addressedToNobody tells whether a key is not a leader's, so that its member starts nothing under
// it: it names another session than that of the member's record, and was created after that
// record. A grant names the session that the record is locked by, and what was granted to an
// earlier session is older than the record.
func addressedToNobody(a facts.Assignment, m facts.Member) bool {
	return a.Session != m.Session && a.CreateIndex > m.CreateIndex && !m.Unreadable
}

// move turns the placement into orders. It returns which items are to leave their owners, by the
// placement: true if that is ordered by now.
func (in *inputs) move(p *plan, b *board, placed placement.Outcome) map[int32]bool {
	p.orders = slices.Grow(p.orders, len(placed.Moves))
	moving := map[int32]bool{}
	n, room := p.countOnTheMove(in.now, in.stopping)
	for _, move := range placed.Moves {
		ref := b.keys[move.Item]
		if move.From == placement.None {
			in.give(p, b, ref, move)
			continue
		}
		moving[move.Item] = false
		m, _ := in.members.Get(ref.member)
		if b.items[move.Item].Leaving || m.Leaving {
			continue // on its way already; a leaving member releases without being asked
		}
		why := in.why(move.Reason, ref.item)
		if in.putOff(p, b, ref, why, n >= in.budget, room) {
			continue
		}
		n++
		moving[move.Item] = true
		p.revoke(ref, why)
	}
	return moving
}

// putOff tells whether a move has to wait: for the soak, for others that are on the move, or
// because the item was placed just now. Room is when others are on the move no more at the latest.
func (in *inputs) putOff(p *plan, b *board, ref keyRef, why reason, full bool,
	room time.Time) bool {
	t := traits[why]
	switch {
	case t.soak && !in.balance:
		p.waiting = true
	case t.soak && b.grace:
	case t.budget && full && (!t.drain || in.patient(p, ref.member)):
		p.wake = actor.Earliest(p.wake, room) // or its turn comes when another has moved
	default:
		return false
	}
	return true
}

// countOnTheMove counts the items that are, and tells when it will be fewer though none of them
// stops; zero: never.
func (p *plan) countOnTheMove(now time.Time, stopping time.Duration) (n int, room time.Time) {
	for _, since := range p.onTheMove {
		if over := since.Add(stopping); now.Before(over) {
			n++
			room = actor.Earliest(room, over)
		}
	}
	return n, room
}

// patient tells whether a drained member gives up its items within the move budget still, and has
// the leader wake at the deadline of the order.
func (in *inputs) patient(p *plan, member string) bool {
	deadline, drained := in.control.Drain.Get(member)
	if !drained || deadline.IsZero() {
		return drained
	}
	if !in.now.Before(deadline) {
		return false
	}
	p.wake = actor.Earliest(p.wake, deadline)
	return true
}

// give hands an item without a living owner to where it was placed.
func (in *inputs) give(p *plan, b *board, ref keyRef, move placement.Move) {
	if move.To == placement.None {
		return
	}
	if !in.place {
		p.waiting = true
		return
	}
	item := b.items[move.Item].ID
	to, m := in.members.At(move.To.Member())
	o := order{kind: orderGrant, item: item, to: to, session: m.Session,
		reason: reason(move.Reason.String()), note: in.leavesQuarantine(item)}
	o.cause = string(o.reason)
	if r, ok := in.origin(item); ok && ref.member == "" {
		o.cause = string(r.why)
	}
	if ref.member != "" {
		o.kind, o.from, o.key, o.ack = orderReap, ref.member, ref.Assignment,
			in.absent[ref.member].ack
		o.reason, o.cause = reasonTakeover, string(reasonTakeover)
	}
	if text := b.prefers(move); text != "" {
		o.cause += protocol.Prefers + text
	}
	p.orders = append(p.orders, o)
}

// callBack has owners keep what they were asked for, if it stays with them by the placement.
func (in *inputs) callBack(p *plan, b *board, moving map[int32]bool) {
	for i, item := range b.items {
		if !item.Leaving {
			continue
		}
		ref := b.keys[i]
		m, _ := in.members.Get(ref.member)
		if _, moves := moving[int32(i)]; moves || !ref.Releasing || m.Leaving ||
			addressedToNobody(ref.Assignment, m) {
			continue // what nobody could start again is released, and granted anew
		}
		p.orders = append(p.orders, order{kind: orderCancel, item: item.ID, from: ref.member,
			key: ref.Assignment, reason: reasonCancelled})
	}
}

// why is the reason of a move. What the leader itself has pinned for the
// planner was preferred there by an operator, or has failed elsewhere.
func (in *inputs) why(r placement.Reason, item string) reason {
	switch {
	case r != placement.Pinned || in.control.Pins.Has(item):
		return reason(r.String())
	case in.control.Preferred.Has(item):
		return reasonPreferred
	}
	return reasonFailing
}
