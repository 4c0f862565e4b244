package member

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// What the leader-tracker knows of the leaders before it, by the term key. The assigner may begin
// at once, because its guard has Consul refuse what a deposed leader writes. The host's own duty
// has no such guard: it begins when no leader before can count on its lease any more.

// take takes the leader key, anew when it is this session's already, and writes the term in the
// same transaction. [store.ErrRefused]: another was quicker, or a lock-delay runs.
func (a *LeaderTracker) take(ctx context.Context, s facts.Session) (facts.Leadership, error) {
	leader, term, err := a.Store.ReadTerm(ctx)
	if err != nil {
		return facts.Leadership{}, err
	}
	lock := store.Lock(leader.Key, []byte(a.ID), leader.Flags+1, s.ID)
	takes := []store.Op{store.CheckNotExists(leader.Key), lock}
	switch {
	case leader.Session == s.ID: // it has led already: before its lease ran out, mostly
		takes = store.Rewrite(leader.Key, []byte(a.ID), leader.Flags+1, leader.ModifyIndex, s.ID)
	case leader.Session != "":
		return facts.Leadership{}, store.ErrRefused // the watch will tell whose it is
	case leader.CreateIndex != 0:
		takes[0] = store.CheckIndex(leader.Key, leader.ModifyIndex)
	}
	lease, until := a.before(term)
	by := a.Process
	by.Lock = a.Lock() // else a reader cannot tell what is left of this process
	next := protocol.Term{Leader: a.ID, Session: s.ID, By: by, After: term.ModifyIndex,
		TTL: max(a.Lease, lease), Clear: lease == 0}
	waits := func() time.Time {
		if lease > 0 && until.IsZero() {
			return time.Now().Add(lease)
		}
		return until
	}
	l := facts.Leadership{Role: facts.Leading, Session: s.ID, ClearAt: waits()}
	if lease > 0 {
		// Known before it is sent: should the answer be lost, the next try finds this take in the
		// term.
		a.clearAt = l.ClearAt
	}
	a.machine.sent = a.from.Key.Get().View
	earlier := a.machine.taking
	a.machine.taking = l
	var result store.Result
	err = a.Answered(ctx, func(ctx context.Context) error {
		result, err = a.Store.Txn(ctx, append([]store.Op{store.CAS(term.Key, next.Encode(), 0,
			term.ModifyIndex)}, takes...)...)
		return err
	})
	if err != nil {
		if !store.OutcomeUnknown(err) {
			a.machine.taking = earlier
		}
		return facts.Leadership{}, err
	}
	l.Leader, l.Term, l.Epoch, l.ClearAt = a.ID, result.Index, result.Index, waits()
	if lease > 0 {
		a.clearAt = l.ClearAt
	}
	if a.Lead != nil && !cleared(l) {
		a.Log.Info("waiting-for-predecessors-lease", "term", l.Term, "lead_begins_in",
			time.Until(l.ClearAt).Round(time.Millisecond).String())
	}
	return l, nil
}

// before tells how long a leader before this one may count on its lease, 0 when none can; and until
// when, if this process has begun to wait for it in an earlier term.
//
// None can when the last one was clear of all before it, and has resigned, is known dead, or is
// this very process: its duty of that term ends before the next one's begins.
func (a *LeaderTracker) before(term store.Entry) (lease time.Duration, until time.Time) {
	if term.CreateIndex == 0 {
		return 0, time.Time{}
	}
	t, err := protocol.ParseTerm(term.Value)
	mine := err == nil && t.By.Instance == a.Process.Instance && t.By.Instance != ""
	switch {
	case err != nil:
		a.Log.Warn("unreadable-key-overwritten", "key", term.Key, "err", err)
		return a.TTL, time.Time{}
	case t.Clear && (t.Resigned || mine || a.Liveness(t.By) == protocol.Dead):
		return 0, time.Time{}
	case mine && !a.clearAt.IsZero():
		if !time.Now().Before(a.clearAt) {
			return 0, time.Time{}
		}
		return t.TTL, a.clearAt
	}
	return t.TTL, time.Time{}
}

// clear says in the term, once it is so, that no earlier leader can count on its lease any more; it
// returns when to try again.
func (a *LeaderTracker) clear(ctx context.Context) (again time.Time, err error) {
	l := a.machine.is
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
	a.machine.is.ClearAt = time.Time{}
	return time.Time{}, nil
}
