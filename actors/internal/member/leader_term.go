package member

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// What the leader-tracker knows of those who led before it, by the term key. The assigner may begin
// at once, because its guard has Consul refuse what a deposed leader writes. The host's own duty
// has no such guard: it begins when no leader before can count on its lease any more.

// cleared tells whether the host's duty may begin.
func cleared(l messages.Leadership) bool {
	return l.ClearAt.IsZero() || !time.Now().Before(l.ClearAt)
}

// take takes the leader key, anew when it is this session's already, and writes the term in the
// same transaction. [store.ErrRefused]: another was quicker, or a lock-delay runs. errPast: it is
// left to others.
func (a *LeaderTracker) take(ctx context.Context, s messages.Session) (messages.Leadership, error) {
	leader, term, err := a.Store.ReadTerm(ctx)
	if err != nil {
		return messages.Leadership{}, err
	}
	flags := leader.Flags + 1
	lock := func(free store.Op) []store.Op {
		return []store.Op{free, store.Lock(leader.Key, []byte(a.ID), flags, s.ID)}
	}
	takes := lock(store.CheckNotExists(leader.Key))
	switch {
	case leader.Session != "" && leader.Session != s.ID:
		// The watch may be silent, and this one may write no term.
		a.leases = unrecordedLeases{}
		return messages.Leadership{}, store.ErrRefused // the watch will tell whose it is
	case leader.Session != "": // it has led already: before its lease ran out, mostly
		takes = store.Rewrite(leader.Key, []byte(a.ID), flags, leader.ModifyIndex, s.ID)
	case leader.CreateIndex != 0:
		takes = lock(store.CheckIndex(leader.Key, leader.ModifyIndex))
	}
	if a.isPast(term) {
		return messages.Leadership{}, errPast
	}
	lease, until, err := a.before(ctx, term)
	if err != nil {
		return messages.Leadership{}, err
	}
	by := a.Process
	by.Lock = a.Lock() // else whoever looks at it cannot tell what is left of this process
	next := protocol.Term{Leader: a.ID, Session: s.ID, By: by, After: term.ModifyIndex,
		TTL: max(a.Lease, lease), Clear: lease == 0}
	var clearAt time.Time
	if lease > 0 {
		if clearAt = until; clearAt.IsZero() {
			clearAt = time.Now().Add(lease)
		}
		// known before it is sent: should the answer be lost, the next try finds this take in the
		// term
		a.clearAt = clearAt
	}
	a.sending()
	a.flags = flags
	earlier := a.taking
	a.taking = messages.Leadership{Role: messages.Leading, Session: s.ID, ClearAt: clearAt}
	var result store.Result
	err = a.Answered(ctx, func(ctx context.Context) error {
		result, err = a.Store.Txn(ctx, append([]store.Op{store.CAS(term.Key, next.Encode(), 0,
			term.ModifyIndex)}, takes...)...)
		return err
	})
	if err != nil && !store.OutcomeUnknown(err) {
		a.taking = earlier
	}
	if err != nil {
		return messages.Leadership{}, err
	}
	epoch := result.Index
	if lease > 0 && until.IsZero() {
		clearAt = time.Now().Add(lease)
		a.clearAt = clearAt
	}
	if a.Lead != nil && time.Until(clearAt) > 0 {
		a.Log.Info("waiting-for-predecessors-lease", "term", epoch, "lead_begins_in",
			time.Until(clearAt).Round(time.Millisecond).String())
	}
	return messages.Leadership{Role: messages.Leading, Leader: a.ID, Term: epoch, Epoch: epoch,
		Session: s.ID, ClearAt: clearAt}, nil
}

// before tells how long a leader before this one may count on its lease, 0 when none can; and until
// when, if this process has begun to wait for it in an earlier term.
//
// None can when the last one was clear of all before it, and has resigned, is known dead, or is
// this very process: its duty of that term ends before the next one's begins.
func (a *LeaderTracker) before(ctx context.Context, term store.Entry) (lease time.Duration,
	until time.Time, err error) {
	lease, longest, err := a.unrecorded(ctx)
	if err != nil || term.CreateIndex == 0 {
		return lease, time.Time{}, err
	}
	t, err := protocol.ParseTerm(term.Value)
	mine := err == nil && t.By.Instance == a.Process.Instance && t.By.Instance != ""
	switch {
	case err != nil:
		a.Log.Warn("strange-key-overwritten", "key", term.Key, "err", err)
		lease = max(lease, longest, a.TTL)
	case t.Clear && (t.Resigned || mine || a.Liveness(t.By) == protocol.Dead):
	case mine && !a.clearAt.IsZero() && !time.Now().Before(a.clearAt):
	case mine && !a.clearAt.IsZero() && lease == 0:
		return t.TTL, a.clearAt, nil
	default:
		lease = max(lease, t.TTL)
	}
	return lease, time.Time{}, nil
}

// unrecordedLeases is what the acks say of members whose version writes no term, by the view of the
// leader key for which it was found out: while nobody leads, that stays.
type unrecordedLeases struct {
	view           uint64
	lease, longest time.Duration
}

// unrecorded is how long a leader may count on its lease that has written no term, as versions
// before this one do not; 0 when there is none. Such a leader's ack is there until after a grace.
// Longest is the longest of all leases.
func (a *LeaderTracker) unrecorded(ctx context.Context) (lease, longest time.Duration, err error) {
	view := a.key.Get().View
	if a.leases.view == view && view > 0 {
		return a.leases.lease, a.leases.longest, nil
	}
	entries, _, err := a.Store.List(ctx, a.Keys.Acks(), store.Consistent)
	if err != nil {
		return 0, 0, err
	}
	m := unrecordedLeases{view: view}
	for _, ack := range protocol.Read(entries, a.Keys.ReadAck, a.odd.Skip) {
		if ack.Session == "" {
			continue
		}
		m.longest = max(m.longest, ack.TTL)
		if !ack.Terms {
			m.lease = max(m.lease, ack.TTL, a.TTL)
		}
	}
	a.leases = m
	return m.lease, m.longest, nil
}

// clear says in the term, once it is so, that no earlier leader can count on its lease any more; it
// returns when to look again.
func (a *LeaderTracker) clear(ctx context.Context, l messages.Leadership) (again time.Time,
	err error) {
	if l.ClearAt.IsZero() {
		return time.Time{}, nil
	}
	if !cleared(l) {
		return l.ClearAt, nil
	}
	leader, term, err := a.Store.ReadTerm(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if t, err := protocol.ParseTerm(term.Value); err == nil && t.Session == l.Session && !t.Clear &&
		leader.ModifyIndex == l.Epoch {
		t.After, t.TTL, t.Clear = term.ModifyIndex, a.Lease, true
		_, err := a.Store.Txn(ctx, store.CheckIndex(leader.Key, l.Epoch),
			store.CAS(term.Key, t.Encode(), 0, term.ModifyIndex))
		if err != nil {
			if errors.Is(err, store.ErrRefused) {
				err = nil
			}
			return time.Now().Add(time.Second), err
		}
	}
	l.ClearAt = time.Time{}
	a.set(l, "")
	return time.Time{}, nil
}
