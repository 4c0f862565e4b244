package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/leader"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/words"
)

// load is what a member has.
type load struct {
	Holder
	states stateCounts
	weight uint64
}

// stateCounts is how many items are in each state.
type stateCounts map[ItemState]int

// items says what becomes of each item: of those in the workload, and those that have an owner
// still, in the order of their ids. It counts those in the workload, and says what each member has.
func (v *view) items() (all []ItemStatus, work StatusWork, loads map[string]*load) {
	work, loads = StatusWork{Total: len(v.work), States: stateCounts{}}, map[string]*load{}
	of := func(member, status string) *load {
		if loads[member] == nil {
			loads[member] = &load{Holder: Holder{ID: member, Status: status, Own: []string{},
				Releasing: []string{}}, states: stateCounts{}}
		}
		return loads[member]
	}
	for id, m := range v.members {
		of(id, m.Status)
		m.used = 0
	}
	for _, key := range v.assigned {
		if m := v.members[key.Member]; m != nil {
			m.used += v.weight(key.Item)
		}
	}
	owned := make(map[string]bool, len(v.assigned))
	for _, key := range v.assigned {
		owned[key.Item] = true
		i := v.owned(key)
		all = append(all, i)
		if !i.Removed {
			work.States[i.State]++
		}
		if key.Unreadable {
			continue // its member gives it up
		}
		l, releasing := of(key.Member, StatusGone), key.State == protocol.StateRel
		l.weight += v.weight(key.Item)
		if l.states[i.State]++; i.State != ItemRunning {
			if l.States == nil {
				l.States = map[ItemState][]string{}
			}
			l.States[i.State] = append(l.States[i.State], i.ID)
		}
		in := &work.Owned
		if releasing {
			l.Releasing, in = append(l.Releasing, i.ID), &work.Releasing
		} else {
			l.Own = append(l.Own, i.ID)
		}
		if i.Removed {
			in = &work.Removed
		}
		*in++
	}
	work.Free = work.Total - work.Owned - work.Releasing
	for id, m := range v.members {
		m.settle(loads[id].states, work.States)
	}
	for id := range v.work {
		if !owned[id] {
			i := v.free(id)
			work.States[i.State]++
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(x, y ItemStatus) int { return strings.Compare(x.ID, y.ID) })
	return all, work, loads
}

// item is what is known of an item whether it has an owner or not.
func (v *view) item(id string) ItemStatus {
	i := ItemStatus{ID: id, Removed: !v.work[id], Pinned: v.orders.Pins[id],
		Preferred: v.orders.Preferred[id], Weight: v.weights[id]}
	if q, noted := v.failed[id]; noted {
		i.FailedAt = q.Members()
	}
	return i
}

// settle counts items of which it is not known by name what they do as what their member counts.
func (m *memberView) settle(here, all stateCounts) {
	if m.summary == nil || len(m.missing) == 0 || m.doubt != (store.Doubt{}) {
		return
	}
	move := func(to ItemState, n int) {
		n = min(n, here[ItemUnknown], all[ItemUnknown])
		if n == 0 {
			return
		}
		for _, c := range []stateCounts{here, all} {
			if c[ItemUnknown] -= n; c[ItemUnknown] == 0 {
				delete(c, ItemUnknown)
			}
			c[to] += n
		}
	}
	for _, state := range ItemStates {
		move(state, m.missing[string(state)])
	}
	move(ItemRunning, here[ItemUnknown])
}

func (v *view) weight(item string) uint64 { return max(1, v.weights[item]) }

// owned is an item that has a key.
func (v *view) owned(key keyView) ItemStatus {
	i := v.item(key.Item)
	i.Member = key.Member
	i.Reason, i.Prefers, _ = strings.Cut(key.Reason, protocol.Prefers)
	m := v.members[key.Member]
	if m == nil {
		v.lost(&i)
		return i
	}
	i.Grant = max(key.created, m.index)
	ack := v.acks[key.Member]
	report, named := m.reports[key.Item]
	inherited := key.created < m.index
	switch {
	case key.Unreadable, key.State == protocol.StateRel,
		m.Status == protocol.StatusLeaving && report.Ends():
		v.leaves(&i, key, report)
	case inherited && ack.Session == m.session && !ack.Clear:
		i.State, i.Cause = ItemWaiting, CausePredecessor
		i.Why = "a former process of " + key.Member + " may still work on it"
		if m.summary != nil {
			i.Until = m.summary.ClearAt
		}
	case m.doubt != (store.Doubt{}): // what it told last is no word about now
		i.report(report)
		i.State, i.NextStart = ItemUnknown, time.Time{}
		i.Cause, i.Since, i.Why = m.doubtful()
	case m.summary == nil:
		i.State, i.Cause = ItemUnknown, CauseUntold
		i.Why = key.Member + " has not told yet what its work does"
	case key.created > m.summary.Upto:
		i.State, i.Why = ItemStarting, "it was granted a moment ago"
	case named, m.rest != "":
		report.State = cmp.Or(report.State, string(m.rest))
		if i.reported(report); report.Ends() {
			i.Cause = CauseRestart
		}
	default:
		i.State, i.Cause = ItemUnknown, CauseUnnamed
		i.Why = key.Member + " names a part of its items that do not run, and this is not one of " +
			"them"
	}
	i.anew = inherited
	if m.summary != nil {
		end := m.summary.Ended
		if key.created <= end.Upto && key.Restart <= end.Upto && end.At.After(i.LastExitAt) {
			i.LastExit, i.LastExitAt = "it was stopped for want of a lease: "+end.Why, end.At
		}
	}
	v.compare(&i, key, v.changed[key.Item])
	return i
}

// doubtful says why it is not known what the work of the member's items does.
func (m *memberView) doubtful() (cause Cause, since time.Time, why string) {
	if m.doubt.Warns != "" {
		return CauseBehind, time.Time{}, m.ID + " cannot tell what its work does: its check warns"
	}
	return CauseSilent, m.doubt.Since, fmt.Sprintf("%s is silent since %s: what its work does is "+
		"not known", m.ID, utcText(m.doubt.Since))
}

// leaves is an item that its owner is to give up.
func (v *view) leaves(i *ItemStatus, key keyView, r protocol.WorkReport) {
	i.State, i.Cause, i.Why = ItemStopping, CauseMoves, "it is on its way to another member"
	to, why := v.barred(i)
	switch {
	case i.Removed:
		i.Cause, i.Why = CauseLeaves, "it was removed from the workload"
	case key.Unreadable:
		i.Why = "its key cannot be read: its owner gives it up"
	case key.Reason == leader.Failing:
		i.Why = "its work failed too often here: it is tried at another member"
	case key.Reason == leader.Quarantined:
		i.Cause, i.Why = CauseLeaves, "its work failed too often: nobody is to run it"
	case v.members[i.Member].Status == protocol.StatusLeaving:
		i.Why = i.Member + " is leaving"
	}
	if i.Cause == CauseMoves && to != "" {
		i.Cause, i.Why = CauseLeaves, "its owner is to give it up, and "+why
	}
	i.report(r)
	switch r.State {
	case protocol.WorkStopping:
	case protocol.WorkStuck:
		i.State, i.Why = ItemStuck, stuckText()
	default:
		i.Since = time.Time{} // it has not told yet
	}
}

// stuckText says that work ignores its order.
func stuckText() string {
	return "it was told to stop, and has not ended within the " + words.Setting("Config.StopTimeout")
}

// reported is what the owner says of the item by name.
func (i *ItemStatus) reported(r protocol.WorkReport) {
	i.State = ItemState(r.State)
	i.report(r)
	switch i.State {
	case ItemRunning:
	case ItemStarting:
		i.Why = "its work has not begun"
		if r.Restarts > 0 {
			i.Why = "its work has ended, and is started again"
		}
	case ItemStopping:
		i.Why = "its work was told to stop"
	case ItemStuck:
		i.Why = stuckText()
	case ItemFailing:
		i.Why = "its check fails: " + r.Check
	case ItemLooping:
		i.Why = "its work ends again and again"
		if r.Over {
			i.Why = "its work failed too often here: the leader takes it away"
		}
	default:
		i.State, i.Cause = ItemUnknown, CauseUntold
		i.Why = i.Member + " says a word that this version does not know: " + r.State
	}
}

func (i *ItemStatus) report(r protocol.WorkReport) {
	i.Since, i.Restarts, i.LastExit, i.LastExitAt = r.Since, r.Restarts, r.Exit, r.ExitAt
	i.NextStart = r.Next
}

// lost is an item whose owner has no record.
func (v *view) lost(i *ItemStatus) {
	i.State = ItemWaiting
	if cause, why := v.barred(i); cause != "" {
		// No end of a lease makes it run.
		i.Cause, i.Why = cause, i.Member+" is gone, and "+why
		return
	}
	i.Cause, i.Why = CauseLost, i.Member+" is gone, and its lease may not be over"
	ack := v.acks[i.Member]
	if ack.Stopped && ack.Clear && ack.Keep > 0 {
		i.Cause, i.Why = CauseKept, i.Member+" has stopped, and its items wait for it to be back"
	}
	w, noted := v.note.Absent[i.Member]
	if !noted || w.Ack != ack.index {
		i.Why += "; the leader is about to find out"
	} else if w.Of > 0 {
		i.Until = v.note.At.Add(w.Of - w.For)
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

// barred says why nobody can be given an item now; no cause: somebody can.
func (v *view) barred(i *ItemStatus) (Cause, string) {
	if cause, why := v.held(); cause != "" {
		return cause, why
	}
	for key, why := range v.note.Refused {
		if item := strings.HasPrefix(key, "assignments/"); item && strings.HasSuffix(key, "/"+i.ID) {
			return CauseRefused, "Consul refuses what the leader writes about it: " + why
		}
	}
	if i.Pinned != "" {
		if why := v.unpinnable(i.ID, i.Pinned); why != "" {
			return CausePinned, why
		}
		return "", ""
	}
	takers := v.takers()
	if slices.ContainsFunc(takers, func(m *memberView) bool { return v.fits(m, i.ID) }) {
		return "", ""
	}
	return CauseNoRoom, v.noRoom(i.ID, takers)
}

// free is an item without a key.
func (v *view) free(id string) ItemStatus {
	i := v.item(id)
	if v.quarantined(&i) {
		return i
	}
	i.State = ItemFree
	if i.Cause, i.Why = v.barred(&i); i.Cause != "" {
		return i
	}
	i.Cause, i.Why = CausePlacing, "about to be given to "+cmp.Or(i.Pinned, "a member")
	return i
}

// noRoom says why an item fits nowhere. Its own weight is named if it is known and may be why.
func (v *view) noRoom(item string, takers []*memberView) string {
	if v.weight(item) == 1 {
		return "every member that takes items is full: start another one, or give one a larger " +
			words.Setting("Config.Capacity")
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

func utcText(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }
