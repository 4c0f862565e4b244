package leader

import (
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// snapshot is the input of a draft: all that the leader knows at one moment. Drafting is pure: it
// uses no clock and no I/O.
type snapshot struct {
	now      time.Time
	members  messages.Table[messages.Member]
	workload messages.Table[messages.WorkItem]
	index    map[string]int32 // place of an item in the workload
	control  messages.Control
	assigned *assignmentCache
	absent   map[string]absence
	build    *unitBuilder
	notes    map[string]note     // of items whose work has failed too often, by item
	failing  map[string][]report // what members say of such work now, by member
	// origin says who released an item that has no owner, and why; not known: false.
	origin  func(item string) (release, bool)
	place   bool // changes have come to rest for a moment: free items may be placed
	balance bool // and for the whole soak: items may be moved for balance
	budget  int  // the most items on the move for balance, or from drained members, at one time
	// zones are those of members, also of some that are gone
	zones map[string]string
	// cooling says until when an item stays where it was placed; nil: none does
	cooling map[string]time.Time
	// releases are the items that were on the move before, and since when; one that takes longer
	// than stopping is none for the budget any more: its work does not stop.
	releases   map[string]time.Time
	stopping   time.Duration
	override   bool // an operator says that what is gone now is meant
	overridden overridden
	braked     brakeCause // of the last draft
	peak       int        // the largest that the workload was within the last 4 x Merge
	hold       time.Duration
}

// unknownOrigin is the origin of items of which nobody knows who had them.
func unknownOrigin(string) (release, bool) { return release{}, false }

// absence is a member that has keys or an ack and no record.
type absence struct {
	asked   time.Time // when it was looked at first
	since   time.Time // when it was confirmed; zero: not yet
	ack     uint64    // its acks key's ModifyIndex then; 0: there was none
	session string    // of its last registration, which is gone
	// sentinel is its sentinel's ModifyIndex then, if a registration wrote that; 0: it is not known
	sentinel uint64
	grace    time.Duration // how long its items wait for it
	// doubt is since when it is to be confirmed again: a write about it was refused, or its ack has
	// moved. Zero: it is not
	doubt   time.Time
	stopped bool // it said that it stops, and that all its work has ended
	aside        // that it could not be confirmed, in a row, for the ack askedOf
	askedOf uint64
	seenAt  uint64 // the index of the records when it was not gone; 0: that is not known
}

// ends is when the grace does; zero: that is not known.
func (a absence) ends() time.Time {
	if a.since.IsZero() || !a.doubt.IsZero() {
		return time.Time{}
	}
	return a.since.Add(a.grace)
}

func (a absence) over(now time.Time) bool {
	ends := a.ends()
	return !ends.IsZero() && !now.Before(ends)
}

// lasting tells whether an absence could not be confirmed, or not again, for so long that nothing
// but its own items waits for it: keys that a stranger wrote, and that name a session which lives.
func (s *snapshot) lasting(a absence) bool {
	return a.ends().IsZero() && !a.asked.IsZero() &&
		!s.now.Before(actor.Latest(a.asked, a.doubt).Add(s.hold))
}

// draft is what the leader is to write, given a snapshot.
type draft struct {
	units []store.Unit // ordered by member, then item
	plan  messages.Plan
	// there is something to place or to move once it has been quiet long enough
	waiting    bool
	wake       time.Time // when time alone changes the draft; zero: never
	later      time.Time // the same, for what nobody waits for
	brake      string
	braked     brakeCause           // a freeze is none
	overridden overridden           // what is gone, and an operator has said so
	releases   map[string]time.Time // the items that are on the move, and since when
	doubles    []string             // items with more than one key: a stranger's work
}

// key is one assignment key of the cache.
type keyRef struct {
	member string
	item   string
	messages.Assignment
}

func (s *snapshot) draft() draft {
	var d draft
	s.build.forgetDraft()
	sorted := s.sort(&d)
	s.count(&d, sorted)
	d.overridden = s.overridden.still(sorted, s.override)
	if d.brake, d.braked = s.brake(sorted, &d); d.brake != "" || s.control.Freeze {
		if d.plan.Frozen = d.brake == ""; d.plan.Frozen {
			d.brake = "an operator froze the assignments (control/freeze)"
		}
		d.plan.Brake = d.brake
		return d
	}
	s.write(&d, sorted)
	// The planner's moves often come in this order already.
	if !slices.IsSortedFunc(d.units, byMemberThenItem) {
		slices.SortStableFunc(d.units, byMemberThenItem)
	}
	d.plan.Settled = len(d.units) == 0 && !d.waiting && d.plan.Releasing == 0 && d.wake.IsZero()
	return d
}

func byMemberThenItem(x, y store.Unit) int {
	if c := strings.Compare(x.Lane, y.Lane); c != 0 {
		return c
	}
	return strings.Compare(x.Tag.(order).item, y.Tag.(order).item)
}

// sorted is the assignment cache held against the members and the workload.
type sorted struct {
	members []placement.Member
	items   []placement.Item // those that may be planned now
	keys    []keyRef         // of items, the key that each has, if any
	removed []keyRef         // keys of items that are no longer in the workload
	extra   []keyRef         // second keys of an item
	grace   bool             // somebody's grace is running
	// items that stay where they are: at a vanished member in its grace, or one with an unreadable
	// record, or under a second key
	waiting int
	// keys of quarantined items, and such items that have none
	barred      []keyRef
	quarantined []string
	bound       []uint64 // while there are such items, what operators have pinned to each member
	// of items, those that are pinned elsewhere as long as no item is without a place for it: by a
	// wish, or to where others have to make room, for they have failed at all others
	wishes []int
	// failures are how many items have failed at each member and run elsewhere; nil: not counted
	failures map[string]int
	version  string   // the newest one, while members carry others; else empty
	keyed    int      // keys in all
	holders  int      // members with keys
	lost     []string // of them, those without a record
}

func (s *snapshot) sort(d *draft) *sorted {
	out := &sorted{members: make([]placement.Member, s.members.Len())}
	place := make(map[string]placement.Place, s.members.Len())
	unreadable := map[string]bool{}
	for i := range s.members.Len() {
		id, m := s.members.At(i)
		out.members[i] = placement.Member{ID: id, Capacity: m.Capacity, Drain: m.Leaving ||
			m.Idle || m.Unreadable || protocol.CheckMemberID(id) != nil || s.control.Drain.Has(id)}
		place[id] = placement.At(i)
		if m.Unreadable {
			unreadable[id] = true
		}
	}
	s.version(out)
	near := s.near(out, place)
	n := s.workload.Len()
	refs := make([]keyRef, n)
	owner := make([]placement.Place, n)
	held := make([]bool, n)
	for _, member := range s.assigned.holders() {
		at, present := place[member]
		away := s.absent[member]
		out.holders++
		if !present {
			out.lost = append(out.lost, member)
			if !away.over(s.now) {
				out.grace = out.grace || !s.lasting(away)
				d.wake = actor.Earliest(d.wake, away.ends())
			}
		}
		for item, a := range s.assigned.members[member] {
			out.keyed++
			ref := keyRef{member, item, a}
			i, wanted := s.index[item]
			if !wanted {
				out.removed = append(out.removed, ref)
				continue
			}
			if refs[i].member != "" {
				d.doubles = append(d.doubles, item)
				if refs[i].CreateIndex <= a.CreateIndex { // the elder key stays
					out.extra = append(out.extra, ref)
					continue
				}
				out.extra = append(out.extra, refs[i])
			}
			refs[i] = ref
			owner[i], held[i] = placement.None, false
			switch {
			case unreadable[member]:
				held[i] = true
			case present:
				owner[i] = at
			case !away.over(s.now):
				held[i] = true
			}
		}
	}
	// While another member may run an item under a second key, it is given to nobody.
	for _, ref := range out.extra {
		if i := s.index[ref.item]; owner[i] == placement.None {
			held[i] = true
		}
	}
	out.items = make([]placement.Item, 0, n)
	out.keys = refs[:0] // a second list of 100,000 takes 13 MB; refs is read ahead of what is kept
	for i := range n {
		if held[i] {
			out.waiting++
			continue
		}
		id, w := s.workload.At(i)
		if s.barred(id) {
			if refs[i].member == "" {
				out.quarantined = append(out.quarantined, id)
			} else {
				out.barred = append(out.barred, refs[i])
			}
			continue
		}
		item := placement.Item{ID: id, Weight: w.Weight, Owner: owner[i],
			Leaving: owner[i] != placement.None && refs[i].Releasing}
		if near != nil && item.Owner == placement.None {
			item.Near = near(id, refs[i].member)
		}
		if to, pinned := s.control.Pins.Get(id); pinned {
			item.Pin = placement.At(len(out.members)) // nobody here, unless it is
			if at, ok := place[to]; ok {
				item.Pin = at
			}
		}
		out.items = append(out.items, item)
		out.keys = append(out.keys, refs[i])
	}
	if len(out.quarantined) > 0 {
		out.bound = out.pinned() // by operators alone, as yet
	}
	s.stay(out)
	s.prefer(d, out)
	s.avoid(out, true)
	return out
}

// count fills in what the plan says of the present.
func (s *snapshot) count(d *draft, sorted *sorted) {
	shares := map[string]messages.Share{}
	d.releases = map[string]time.Time{}
	for id := range s.members.IDs() {
		shares[id] = messages.Share{}
	}
	d.plan.Total = s.workload.Len()
	for i, item := range sorted.items {
		if item.Owner == placement.None {
			d.plan.Free++ // a vanished member's, whose grace is over, too
			continue
		}
		ref := sorted.keys[i]
		share := shares[ref.member]
		share.Items++
		share.Weight += item.Weight
		if ref.Releasing {
			share.Releasing++
			d.plan.Releasing++
			since, known := s.releases[item.ID]
			if !known {
				since = s.now
			}
			d.releases[item.ID] = since
		} else {
			d.plan.Owned++
		}
		shares[ref.member] = share
	}
	for _, ref := range sorted.barred {
		share, present := shares[ref.member]
		switch {
		case !present: // a vanished member's, whose grace is over
			d.plan.Quarantined++
			continue
		case ref.Releasing:
			share.Releasing++
			d.plan.Releasing++
		default:
			d.plan.Owned++
		}
		w, _ := s.workload.Get(ref.item)
		share.Items++
		share.Weight += w.Weight
		shares[ref.member] = share
	}
	d.plan.Quarantined += len(sorted.quarantined)
	d.plan.Owned += sorted.waiting
	d.plan.Waiting, d.plan.Lost = sorted.waiting, len(sorted.lost)
	d.plan.Shares = messages.TableOf(shares)
	d.plan.At = s.now
}

// write turns the placement into orders.
func (s *snapshot) write(d *draft, sorted *sorted) {
	gone := sorted.removed
	if !s.place { // more may follow, until it is most of the workload
		d.waiting = d.waiting || len(gone) > 0
		gone = nil
	}
	s.takeBack(d, append(sorted.extra, gone...), "removed")
	s.takeBack(d, sorted.barred, reasonQuarantined)
	for id, away := range s.absent {
		if _, holds := s.assigned.members[id]; holds || away.since.IsZero() {
			continue
		}
		if away.over(s.now) {
			d.units = append(d.units, s.build.sweep(id, away.ack))
		} else {
			d.wake = actor.Earliest(d.wake, away.ends())
		}
	}
	for i, ref := range sorted.keys {
		if sorted.items[i].Owner == placement.None || ref.Releasing {
			continue
		}
		m, _ := s.members.Get(ref.member)
		switch {
		case ref.Unreadable:
			d.units = append(d.units, s.build.revoke(ref.item, ref.member, ref.Assignment,
				"unreadable"))
		case addressedToNobody(ref.Assignment, m):
			d.units = append(d.units, s.build.revoke(ref.item, ref.member, ref.Assignment,
				"not-addressed"))
		default:
			continue
		}
		sorted.items[i].Leaving = true
	}
	s.forget(d, s.fail(d, sorted))
	all := sorted.members
	p := s.compute(sorted)
	s.retry(d, sorted, all, p.Loads)
	d.plan.Unplaced = len(p.Unplaced)
	for j, load := range p.Loads {
		id, _ := s.members.At(j)
		share, _ := d.plan.Shares.Get(id)
		d.plan.Excess += share.Weight - min(share.Weight, load)
	}
	d.units = slices.Grow(d.units, len(p.Moves))
	onTheMove, room := s.onTheMove(d)
	moving, revoked := make([]bool, len(sorted.items)), make([]bool, len(sorted.items))
	for _, move := range p.Moves {
		item, ref := sorted.items[move.Item], sorted.keys[move.Item]
		moving[move.Item] = true
		if move.From == placement.None {
			s.give(d, sorted, ref, move)
			continue
		}
		m, _ := s.members.Get(ref.member)
		switch {
		case item.Leaving || m.Leaving:
			// on its way already; a leaving member releases without being asked
		case move.Reason == placement.Balance && (!s.balance || sorted.grace ||
			onTheMove >= s.budget):
			d.waiting = d.waiting || !s.balance
			if s.balance && !sorted.grace {
				d.wake = actor.Earliest(d.wake, room)
			}
		case move.Reason == placement.Balance && s.now.Before(s.cooling[item.ID]):
			d.wake = actor.Earliest(d.wake, s.cooling[item.ID])
		case move.Reason == placement.Drain && onTheMove >= s.budget && s.patient(d, ref.member):
			d.wake = actor.Earliest(d.wake, room) // or its turn comes when another has moved
		default:
			onTheMove++
			revoked[move.Item] = true
			d.units = append(d.units, s.build.revoke(item.ID, ref.member, ref.Assignment,
				s.reason(move.Reason, item.ID)))
		}
	}
	for i, item := range sorted.items {
		ref := sorted.keys[i]
		m, _ := s.members.Get(ref.member)
		if !item.Leaving || moving[i] || !ref.Releasing || m.Leaving ||
			addressedToNobody(ref.Assignment, m) {
			continue // what nobody could start again is released, and granted anew
		}
		d.units = append(d.units, s.build.cancel(item.ID, ref.member, ref.Assignment))
	}
	s.passOn(d, sorted, revoked)
}

// onTheMove counts the items that are, and tells when it will be fewer though none of them stops;
// zero: never.
func (s *snapshot) onTheMove(d *draft) (n int, room time.Time) {
	for _, since := range d.releases {
		if over := since.Add(s.stopping); s.now.Before(over) {
			n++
			room = actor.Earliest(room, over)
		}
	}
	return n, room
}

// takeBack takes keys away: those of members that are there by asking them to, those of vanished
// ones when their grace is over.
func (s *snapshot) takeBack(d *draft, keys []keyRef, why string) {
	for _, ref := range keys {
		m, present := s.members.Get(ref.member)
		switch {
		case present && !ref.Releasing && !m.Leaving:
			d.units = append(d.units, s.build.revoke(ref.item, ref.member, ref.Assignment, why))
		case !present && s.absent[ref.member].over(s.now):
			d.units = append(d.units, s.build.erase(ref.item, ref.member, ref.Assignment,
				s.absent[ref.member].ack, why))
		}
	}
}

// patient tells whether a drained member gives up its items within the move budget still, and has
// the leader wake at the deadline of the order.
func (s *snapshot) patient(d *draft, member string) bool {
	deadline, drained := s.control.Drain.Get(member)
	if !drained || deadline.IsZero() {
		return drained
	}
	if !s.now.Before(deadline) {
		return false
	}
	d.wake = actor.Earliest(d.wake, deadline)
	return true
}

// addressedToNobody tells whether a key is a stranger's, under which its member starts nothing: it
// names another session than that of the member's record, and was created after that record. A
// grant names the session that the record is locked by, and what was granted to an earlier
// session is older than the record.
func addressedToNobody(a messages.Assignment, m messages.Member) bool {
	return a.Session != m.Session && a.CreateIndex > m.CreateIndex && !m.Unreadable
}

// give hands an item without a living owner to where it was placed.
func (s *snapshot) give(d *draft, sorted *sorted, ref keyRef, move placement.Move) {
	if move.To == placement.None {
		return
	}
	if !s.place {
		d.waiting = true
		return
	}
	item := sorted.items[move.Item].ID
	to, m := s.members.At(move.To.Member())
	prefers := ""
	if text := sorted.prefers(move); text != "" {
		prefers = protocol.Prefers + text
	}
	if ref.member == "" {
		cause := move.Reason.String()
		if r, ok := s.origin(item); ok {
			cause = r.why
		}
		d.units = append(d.units, s.build.grant(item, to, m.Session, move.Reason.String(),
			cause+prefers))
		return
	}
	away := s.absent[ref.member]
	d.units = append(d.units, s.build.reap(item, ref.member, ref.Assignment, away.ack, to,
		m.Session, "takeover", prefers))
}
