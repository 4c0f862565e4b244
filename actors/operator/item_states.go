package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// view is what Consul holds of a service, read into values. What becomes of an item follows from it
// alone: no clock and no I/O.
type view struct {
	leader string // empty: nobody leads
	orders protocol.Orders
	brake  string
	// note is the leader's own note; that of a leader before it says nothing of now.
	note    protocol.LeaderState
	members map[string]*memberView
	acks    map[string]ackView
	work    map[string]bool
	weights map[string]uint64 // of items; nil: not read, and each counts as 1
	failed  map[string]failedView
	keys    []keyView // in the order of members and items
}

// memberView is a registered member.
type memberView struct {
	protocol.Member
	session string
	index   uint64                // CreateIndex of its record
	summary *protocol.WorkSummary // nil: it does not tell what its work does
	reports map[string]protocol.WorkReport
	// missing are items that the summary counts and does not name, by state
	missing map[string]int
	silent  time.Time // since when nothing is heard of it; zero: it is heard, or that is not known
	used    uint64    // the weight of what it has
}

type ackView struct {
	protocol.MemberAck
	index uint64
}

// failedView is what the leader has noted of an item whose work fails too often.
type failedView struct {
	protocol.Quarantine
	index uint64
}

type keyView struct {
	protocol.ItemAssignment
	created uint64
}

// leaseOf is how long a member's lease lasts, in milliseconds; 0: it does not say.
func (v *view) leaseOf(m *memberView) int64 {
	if a := v.acks[m.ID]; a.Session == m.session {
		return a.TTL.Milliseconds()
	}
	return 0
}

// tell takes a member's summary, if it is of the session that its record is locked by.
func (m *memberView) tell(s protocol.WorkSummary) {
	if s.Session != m.session {
		return
	}
	m.summary, m.reports, m.missing = &s, map[string]protocol.WorkReport{}, map[string]int{}
	for state, n := range s.Counts {
		if state != protocol.WorkRunning && state != protocol.WorkWaiting {
			m.missing[state] = n
		}
	}
	for _, r := range s.Items {
		m.reports[r.ID] = r
		if m.missing[r.State]--; m.missing[r.State] <= 0 {
			delete(m.missing, r.State)
		}
	}
}

// items says what becomes of each item: of those in the workload, and those that have an owner
// still. They are in the order of their ids. States counts those in the workload; by member, those
// that it has.
func (v *view) items() (all []ItemStatus, states stateCounts, at map[string]stateCounts) {
	states, at = stateCounts{}, map[string]stateCounts{}
	for _, key := range v.keys {
		if m := v.members[key.Member]; m != nil {
			m.used += v.weight(key.Item)
		}
	}
	owned := make(map[string]bool, len(v.keys))
	for _, key := range v.keys {
		if owned[key.Item] {
			continue
		}
		owned[key.Item] = true
		i := v.assigned(key)
		i.Removed = !v.work[key.Item]
		i.Pinned, i.FailedAt = v.orders.Pins[key.Item], v.failedAt(key.Item)
		i.Preferred = v.orders.Preferred[key.Item]
		if at[key.Member] == nil {
			at[key.Member] = stateCounts{}
		}
		at[key.Member][i.State]++
		if !i.Removed {
			states[i.State]++
		}
		all = append(all, i)
	}
	for id, m := range v.members {
		m.settle(at[id], states)
	}
	for id := range v.work {
		if !owned[id] {
			i := v.free(id)
			states[i.State]++
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(x, y ItemStatus) int { return strings.Compare(x.ID, y.ID) })
	return all, states, at
}

// stateCounts is how many items are in each state.
type stateCounts map[ItemState]int

// settle counts items of which it is not known by name what they do as what their member counts.
func (m *memberView) settle(here, all stateCounts) {
	if m.summary == nil || len(m.missing) == 0 || !m.silent.IsZero() {
		return
	}
	move := func(to ItemState, n int) {
		n = min(n, here[ItemOwned], all[ItemOwned])
		if n == 0 {
			return // here may be nil: it has nothing any more
		}
		for _, c := range []stateCounts{here, all} {
			if c[ItemOwned] -= n; c[ItemOwned] == 0 {
				delete(c, ItemOwned)
			}
			c[to] += n
		}
	}
	for _, state := range ItemStates {
		move(state, m.missing[string(state)])
	}
	move(ItemRunning, here[ItemOwned])
}

func (v *view) weight(item string) uint64 { return max(1, v.weights[item]) }

// assigned is an item that has a key.
func (v *view) assigned(key keyView) ItemStatus {
	i := ItemStatus{ID: key.Item, Member: key.Member}
	i.Reason, i.Prefers, _ = strings.Cut(key.Reason, protocol.Prefers)
	m := v.members[key.Member]
	if m == nil {
		v.lost(&i, key.Member)
		return i
	}
	i.Token = max(key.created, m.index)
	ack := v.acks[key.Member]
	report, named := m.reports[key.Item]
	inherited := key.created < m.index
	switch {
	case key.Unreadable:
		i.State, i.Why = ItemStopping, "its key cannot be read: its owner gives it up"
	case key.State == protocol.StateRel:
		i.State, i.Why = ItemStopping, "it is on its way to another member"
		switch key.Reason {
		case "failing":
			i.Why = "its work failed too often here: it is tried at another member"
		case "quarantined":
			i.Why = "its work failed too often: nobody is to run it"
		}
		if m.Status == protocol.StatusLeaving {
			i.Why = key.Member + " is leaving"
		}
		i.report(report)
		if report.State != protocol.WorkStopping {
			i.Since = time.Time{} // it has not told yet
		}
	case inherited && ack.Session == m.session && !ack.Clear:
		i.State, i.Cause = ItemWaiting, CausePredecessor
		i.Why = "a former process of " + key.Member + " may still work on it"
		if m.summary != nil {
			i.Until = m.summary.ClearAt
		}
	case !m.silent.IsZero(): // what it told last is no word about now
		i.report(report)
		i.State, i.Cause, i.Since, i.NextStart = ItemOwned, CauseSilent, m.silent, time.Time{}
		i.Why = fmt.Sprintf("%s is silent since %s: what its work does is not known", m.ID,
			utcText(m.silent))
	case m.summary == nil:
		i.State, i.Why = ItemOwned, key.Member+" has not told what its work does: "+
			"it has just come, or is of an older version"
	case key.created > m.summary.Upto:
		i.State, i.Why = ItemStarting, "it was granted a moment ago"
	case named:
		i.reported(report)
	case len(m.missing) > 0:
		i.State, i.Why = ItemOwned, key.Member+
			" names a part of its items that do not run, and this is not one of them"
	default:
		i.State = ItemRunning
	}
	return i
}

// reported is what the owner says of the item by name.
func (i *ItemStatus) reported(r protocol.WorkReport) {
	i.State = ItemState(r.State)
	i.report(r)
	switch i.State {
	case ItemRunning:
	case ItemStarting:
		i.Why = "its work has not begun"
	case ItemStopping:
		i.Why = "its work was told to stop"
	case ItemLooping:
		i.Why = "its work ends by itself again and again"
		if r.Over {
			i.Why = "its work failed too often here: the leader takes it away"
		}
	default:
		i.State = ItemOwned
		i.Why = i.Member + " says a word that this version does not know: " + r.State
	}
}

func (i *ItemStatus) report(r protocol.WorkReport) {
	i.Since, i.Restarts, i.LastExit, i.LastExitAt = r.Since, r.Restarts, r.Exit, r.ExitAt
	i.NextStart = r.Next
}

// lost is an item whose owner has no record.
func (v *view) lost(i *ItemStatus, member string) {
	i.State, i.Cause, i.Why = ItemWaiting, CauseLost,
		member+" is gone, and its lease may not be over"
	ack, said := v.acks[member]
	if said && ack.Stopped && ack.Clear && ack.Keep > 0 {
		i.Cause, i.Why = CauseKept, member+" has stopped, and its items wait for it to be back"
	}
	if cause, why := v.held(); cause != "" {
		i.Cause, i.Why = cause, member+" is gone, and "+why
		return
	}
	if to := v.orders.Pins[i.ID]; to != "" {
		if why := v.unpinnable(i.ID, to); why != "" {
			// No end of a lease makes it run.
			i.Cause, i.Why = CausePinned, member+" is gone, and "+why
			return
		}
	}
	takers := v.takers()
	if i.Cause == CauseLost && !slices.ContainsFunc(takers, func(m *memberView) bool {
		return v.fits(m, i.ID)
	}) {
		// Nor does one here.
		i.Cause, i.Why = CauseNoRoom, member+" is gone, and "+v.noRoom(i.ID, takers)
		return
	}
	w, noted := v.note.Absent[member]
	if !noted || w.Ack != ack.index {
		i.Why += "; the leader is about to find out"
		return
	}
	of := w.Of
	if of == 0 && said { // a leader of a version that does not say
		of = max(ack.TTL, ack.Keep)
	}
	if of > 0 {
		i.Until = v.note.At.Add(of - w.For)
	}
}

// missedSince is from when on the leader has missed a member that is gone; zero: not known.
func (v *view) missedSince(member string) time.Time {
	w, noted := v.note.Absent[member]
	if !noted || w.Ack != v.acks[member].index {
		return time.Time{}
	}
	return v.note.At.Add(-w.For).UTC()
}

// held says why nothing is given to anybody at all.
func (v *view) held() (Cause, string) {
	switch {
	case v.leader == "":
		return CauseNoLeader, "nobody leads who could give it to a member"
	case v.orders.Frozen:
		return CauseFrozen, `an operator has frozen the assignments: "coordd thaw"`
	case v.brake != "":
		return CauseBrake, "the leader holds back: " + v.brake
	case len(v.takers()) == 0:
		if len(v.members) == 0 {
			return CauseNoMembers, "no member is registered"
		}
		return CauseNoMembers, "no member takes items: each is drained, leaves, or runs nothing"
	}
	return "", ""
}

// takes tells whether a member takes items.
func (v *view) takes(m *memberView) bool {
	_, drained := v.orders.Drained[m.ID]
	return !m.Unreadable && !m.Idle && !drained && m.Status == protocol.StatusAlive &&
		protocol.CheckMemberID(m.ID) == nil
}

func (v *view) takers() (all []*memberView) {
	for _, m := range v.members {
		if v.takes(m) {
			all = append(all, m)
		}
	}
	return all
}

func (v *view) fits(m *memberView, item string) bool {
	return m.Capacity == 0 || m.used+v.weight(item) <= m.Capacity
}

// unpinnable says why an item cannot go to the member that it is pinned to; empty: it can.
func (v *view) unpinnable(item, to string) string {
	m := v.members[to]
	switch {
	case m == nil:
		return fmt.Sprintf("it is pinned to %s, which is not registered", to)
	case !v.takes(m):
		return fmt.Sprintf("it is pinned to %s, which takes no items: it is drained, leaves, "+
			"or runs nothing", to)
	case !v.fits(m, item):
		return fmt.Sprintf("it is pinned to %s, which is full: %d of %d", to, m.used, m.Capacity)
	}
	return ""
}

// free is an item without a key.
func (v *view) free(id string) ItemStatus {
	i := ItemStatus{ID: id, State: ItemFree, Pinned: v.orders.Pins[id], FailedAt: v.failedAt(id),
		Preferred: v.orders.Preferred[id]}
	if v.quarantined(&i) {
		return i
	}
	if i.Cause, i.Why = v.held(); i.Cause != "" && i.Cause != CauseNoMembers {
		return i
	}
	if to := i.Pinned; to != "" {
		i.Cause, i.Why = CausePinned, v.unpinnable(id, to)
		if i.Why == "" {
			i.Cause, i.Why = CausePlacing, "about to be given to "+to
		}
		return i
	}
	if i.Cause != "" {
		return i
	}
	takers := v.takers()
	if slices.ContainsFunc(takers, func(m *memberView) bool { return v.fits(m, id) }) {
		i.Cause, i.Why = CausePlacing, "about to be given to a member"
		if v.weights == nil && !slices.ContainsFunc(takers, func(m *memberView) bool {
			return m.Capacity == 0
		}) {
			i.Why += ", unless it weighs more than any of them has room for"
		}
		return i
	}
	i.Cause, i.Why = CauseNoRoom, v.noRoom(id, takers)
	return i
}

// noRoom says why an item fits nowhere. Its own weight is named if it is known and may be why.
func (v *view) noRoom(item string, takers []*memberView) string {
	if v.weight(item) == 1 {
		return "every member that takes items is full: start another one, or give one a larger " +
			"--capacity"
	}
	room := func(m *memberView) uint64 { return m.Capacity - min(m.used, m.Capacity) }
	most := slices.MaxFunc(takers, func(a, b *memberView) int {
		return cmp.Or(cmp.Compare(room(a), room(b)), strings.Compare(b.ID, a.ID))
	})
	return fmt.Sprintf("it weighs %d, and no member that takes items has so much room: %s has the "+
		"most, %d", v.weight(item), most.ID, room(most))
}

// untaken ends why an item is quarantined that has failed at one member.
const untaken = ", and no other member takes it"

// quarantined fills in an item that nobody is to run; false: it is none.
func (v *view) quarantined(i *ItemStatus) bool {
	q, noted := v.failed[i.ID]
	if !noted || q.Since == 0 || q.EndedBy(v.orders.RestartItems[i.ID], q.index) {
		return false // not, or not any more
	}
	last := q.Last()
	i.State, i.Since = ItemQuarantined, time.UnixMilli(q.Since).UTC()
	i.LastExit, i.LastExitAt = last.Exit, last.Time()
	i.Why = "its work failed too often at " + strings.Join(q.Members(), " and at ")
	if len(q.Failed) < protocol.MaxOwners {
		i.Why += untaken
	}
	return true
}

// failedAt names the members at which the work of an item has failed too often, as the leader has
// noted.
func (v *view) failedAt(item string) []string {
	if q, noted := v.failed[item]; noted {
		return q.Members()
	}
	return nil
}

// read takes the entries of a service into a view; strange ones are passed to odd.
func (p *serviceState) view(odd func(store.Entry, string)) *view {
	v := &view{members: map[string]*memberView{}, acks: map[string]ackView{},
		work: make(map[string]bool, len(p.work)), failed: map[string]failedView{}}
	if id, led, err := p.keys.ReadLeader(p.leader); led {
		v.leader = id
		if err != nil {
			odd(p.leader, "")
		}
	}
	v.orders = p.keys.ReadOrders(p.control, odd)
	for e, a := range protocol.Read(p.acks, p.keys.ReadAck, odd) {
		v.acks[a.Member] = ackView{a, e.ModifyIndex}
	}
	if l, err := p.keys.ReadLeaderState(p.leaderState); err != nil {
		odd(p.leaderState, "")
	} else if v.leader != "" && l.By == p.leader.Session {
		v.note = l
		if !v.orders.Frozen {
			v.brake = l.Brake
		}
	}
	for e, m := range protocol.Read(p.members, p.keys.ReadMember, odd) {
		if m.Unreadable {
			m.Status = "unreadable"
		}
		v.members[m.ID] = &memberView{Member: m, session: e.Session, index: e.CreateIndex,
			silent: p.silentSince(m.ID, m.Process)}
	}
	for _, w := range protocol.Read(p.states, p.keys.ReadWorkSummary, odd) {
		if m := v.members[w.Member]; m != nil {
			m.tell(w.WorkSummary)
		}
	}
	for e, w := range protocol.Read(p.work, p.keys.ReadWorkItem, odd) {
		v.work[w.ID] = true
		if p.weighed {
			if v.weights == nil {
				v.weights = make(map[string]uint64, len(p.work))
			}
			v.weights[w.ID] = max(1, e.Flags)
		}
	}
	for e, q := range protocol.Read(p.quarantines, p.keys.ReadQuarantine, odd) {
		v.failed[q.Item] = failedView{q.Quarantine, e.ModifyIndex}
	}
	for e, a := range protocol.Read(p.assignments, p.keys.ReadAssignment, odd) {
		v.keys = append(v.keys, keyView{a, e.CreateIndex})
	}
	// The elder of two keys of an item is the one that counts.
	second := map[string]int{}
	for n, key := range v.keys {
		if first, twice := second[key.Item]; twice && v.keys[first].created > key.created {
			v.keys[first], v.keys[n] = v.keys[n], v.keys[first]
		} else if !twice {
			second[key.Item] = n
		}
	}
	return v
}

// untilText is a time until which something lasts at the latest.
func utcText(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }
