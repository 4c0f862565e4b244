package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// LeaderTracker campaigns for the leadership and says who has it. It leads while the leader key is
// locked by its session and its lease holds; a failed poll, a slow or an absent Consul costs nobody
// the leadership. The rules stand in leadership.go; this is their shell.
type LeaderTracker struct {
	*actor.Base
	out  *messages.State[facts.Leadership]
	from TrackerInputs
	bump *messages.Mailbox[facts.Bump, facts.Leadership]
	// dutyEnds is the term whose duty is to end before the leadership is handed over.
	dutyEnds *messages.State[uint64]
	lease    *LeaseEnforcer

	machine leadership
	said    facts.Leadership // what the log was told last
	clearAt time.Time        // until when this process waits, or waited, for leaders before it
}

// TrackerInputs are the states that the leader-tracker reads.
type TrackerInputs struct {
	Session    messages.Reader[facts.Session]
	Membership messages.Reader[facts.Membership]
	Key        messages.Reader[LeaderKey]
	Terms      messages.Reader[TermsRun]
	// Of the own term:
	Control messages.Reader[facts.Control]
	Members messages.Reader[facts.Members]
	Unfit   messages.Reader[facts.Unfit]
}

// NewLeaderTracker wires the actor.
func NewLeaderTracker(b *actor.Base, out *messages.State[facts.Leadership], from TrackerInputs,
	bump *messages.Mailbox[facts.Bump, facts.Leadership], dutyEnds *messages.State[uint64],
	lease *LeaseEnforcer) *LeaderTracker {
	return &LeaderTracker{Base: b, out: out, from: from, bump: bump, dutyEnds: dutyEnds,
		lease: lease}
}

// NewLeaderWatcher follows the leader key.
func NewLeaderWatcher(b *actor.Base, out *messages.State[LeaderKey]) *actor.Watcher {
	unreadable := protocol.UnreadableKeys{Log: b.Log}
	return actor.NewKeyWatcher(b, "leader key", b.Keys.Leader(), func(v store.View) {
		next := LeaderKey{Known: true, Index: v.Index, View: out.Get().View + 1}
		if len(v.Entries) > 0 {
			var err error
			next.Found, next.Entry = true, v.Entries[0]
			if next.Leader, _, err = b.Keys.ReadLeader(next.Entry); err != nil {
				unreadable.Skip(next.Entry, err.Error())
			}
		}
		out.Set(next)
	})
}

// Run is the actor: see [supervisor.Child].
func (a *LeaderTracker) Run(ctx context.Context) error {
	defer a.resign(ctx)
	bumps := a.bump.Open()
	defer bumps.Close()
	session, membership := a.from.Session.Subscribe(), a.from.Membership.Subscribe()
	key, terms := a.from.Key.Subscribe(), a.from.Terms.Subscribe()
	control, members := a.from.Control.Subscribe(), a.from.Members.Subscribe()
	unfit := a.from.Unfit.Subscribe()
	ladder := store.NewLadder()
	var timer actor.Timer
	defer timer.Stop()
	var next time.Time
	for {
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-session.Changed():
			session.Take()
		case <-membership.Changed():
			membership.Take()
		case <-key.Changed():
			key.Take()
		case <-control.Changed():
			control.Take()
		case <-members.Changed():
			members.Take()
		case <-terms.Changed():
			terms.Take()
		case <-unfit.Changed():
			unfit.Take()
		case <-timer.At(next):
		case r := <-bumps.Requests():
			r.Handle(a.newEpoch)
		}
		if err := a.Busy(ctx); err != nil {
			return err
		}
		var err error
		next, err = a.step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			ladder.Reset()
		case actor.Transient(err):
			next = actor.Earliest(next, a.Retry("leader key", err, ladder))
		default:
			return err
		}
	}
}

// step decides and carries out; it returns when to look again.
func (a *LeaderTracker) step(ctx context.Context) (again time.Time, err error) {
	s := a.from.Session.Get()
	op, again := a.machine.step(a.inputs(s))
	a.publish()
	defer a.publish()
	switch op {
	case opTake:
		return a.campaign(ctx, s)
	case opResign:
		if err := a.handOver(ctx); err != nil {
			return time.Time{}, err
		}
		return again, nil
	}
	held, free := a.whileHeld(ctx, s)
	defer free()
	switch op {
	case opRaise:
		a.Log.Warn("leader-key-touched", "key", a.Keys.Leader(), "epoch", a.machine.is.Epoch,
			"then", "taking a new epoch")
		return again, a.raise(held, s)
	case opVerify:
		return again, a.verify(held, s)
	case opClear:
		retry, err := a.clear(held)
		return actor.Earliest(again, retry), err
	}
	return again, nil
}

func (a *LeaderTracker) inputs(s facts.Session) leaderInputs {
	now, m, l := time.Now(), a.from.Membership.Get(), a.machine.is
	in := leaderInputs{now: now, session: s.ID, lease: a.Holds(s), member: m.In(s.ID),
		leaving: m.Phase == facts.Leaving, key: a.from.Key.Get(), terms: a.from.Terms.Get(),
		// The lease is looked at once a second, by both clocks, for a timer stands still while the
		// host is suspended.
		look: now.Add(min(s.Lease.Left(now)-a.LeaseMargin, time.Second))}
	if l.Role != facts.Leading {
		return in
	}
	control, members := a.from.Control.Get(), a.from.Members.Get()
	if control.Term == l.Term && members.Term == l.Term {
		in.drained, in.other = control.Drain.Has(a.ID), a.anotherMayLead(members, control)
	}
	if u := a.from.Unfit.Get(); u.Term == l.Term {
		in.unfit = u.Missing
	}
	return in
}

// anotherMayLead tells whether there is another member that is not drained.
func (a *LeaderTracker) anotherMayLead(members facts.Members, control facts.Control) bool {
	for id, m := range members.Items.All() {
		if id != a.ID && !m.Leaving && !m.Unreadable && !control.Drain.Has(id) {
			return true
		}
	}
	return false
}

// publish says what the machine has decided, and tells the log what is new.
func (a *LeaderTracker) publish() {
	m := &a.machine
	if a.dutyEnds.Get() != m.dutyEnds {
		if m.dutyEnds != 0 {
			a.Log.Info("handing-over", "term", m.dutyEnds, "why", m.why)
		}
		a.dutyEnds.Set(m.dutyEnds)
	}
	l, old := m.is, a.said
	if l == old {
		return
	}
	a.said = l
	if old.Role == facts.Leading && l.Role != facts.Leading &&
		m.handing.Role != facts.Leading {
		a.Log.Warn("lost-leadership", "term", old.Term, "why", m.why)
	}
	switch {
	case l.Role == facts.Leading && old.Term != l.Term:
		a.Log.Info("became-leader", "term", l.Term)
	case l.Role == facts.Leading && old.Epoch != l.Epoch:
		a.Log.Info("new-epoch", "term", l.Term, "epoch", l.Epoch)
	case l.Role == facts.Following && old.Leader != l.Leader && l.Leader != a.ID: // not of before
		a.Log.Info("new-leader", "leader", l.Leader)
	}
	a.out.Set(l)
}

// whileHeld ends when the lease no longer covers the leadership: what a leader asks of Consul must
// not keep it from saying by then that it leads no more.
func (a *LeaderTracker) whileHeld(ctx context.Context, s facts.Session) (context.Context,
	context.CancelFunc) {
	return a.lease.bind(ctx, s.ID)
}

// campaign tries to take the leadership.
func (a *LeaderTracker) campaign(ctx context.Context, s facts.Session) (time.Time, error) {
	l, err := a.take(ctx, s)
	switch {
	case errors.Is(err, store.ErrRefused), errors.Is(err, store.ErrSessionGone):
		return a.machine.refuse(time.Now(), a.LockDelay), nil
	case err != nil:
		return time.Time{}, err
	case ctx.Err() != nil: // it is resigned before anything of the term has begun
		a.machine.taking = l
		return time.Time{}, nil
	}
	a.Store.Succeeded("leader key")
	a.machine.took(l)
	return time.Now(), nil
}

// raise takes a new epoch within the term. It is a write at the key's index: so a copy of it that
// arrives late does nothing, and nobody else's key is taken. An epoch that is not larger than the
// index before is none: what was sent in that one would still be accepted.
func (a *LeaderTracker) raise(ctx context.Context, s facts.Session) error {
	for range 5 {
		e, found, _, err := a.Store.Get(ctx, a.Keys.Leader(), store.Consistent)
		switch {
		case err != nil:
			return err
		case !found || e.Session != s.ID:
			a.machine.raised(0)
			return nil
		}
		a.machine.sent = a.from.Key.Get().View
		result, err := a.Store.Txn(ctx, store.Rewrite(a.Keys.Leader(), []byte(a.ID), e.Flags+1,
			e.ModifyIndex, s.ID)...)
		switch {
		case err == nil && result.Index > e.ModifyIndex && result.Index != a.machine.is.Epoch:
			a.Store.Succeeded("leader key")
			a.machine.raised(result.Index)
			return nil
		case err != nil && !errors.Is(err, store.ErrRefused) &&
			!errors.Is(err, store.ErrSessionGone):
			return err
		}
	}
	return fmt.Errorf("a new epoch: %w: others write to %s all the time", store.ErrUnreachable,
		a.Keys.Leader())
}

// verify asks whether the key is as this leader has locked it last: then it is the watch that is
// slow. Else Consul has forgotten the epoch.
func (a *LeaderTracker) verify(ctx context.Context, s facts.Session) error {
	m := &a.machine
	e, _, _, err := a.Store.Get(ctx, a.Keys.Leader(), store.Consistent)
	if err != nil || e.Session == m.is.Session && e.ModifyIndex == m.is.Epoch {
		m.behindAt = time.Now()
		return err
	}
	a.Log.Warn("consul-forgot-the-epoch", "key", a.Keys.Leader(), "epoch", m.is.Epoch, "then",
		"taking a new epoch and reading everything anew")
	m.is.Resets++
	return a.raise(ctx, s)
}

// newEpoch answers the assigner, for which the outcome of a write is unknown: with the new epoch
// every earlier write that is still on its way will be refused.
func (a *LeaderTracker) newEpoch(ctx context.Context, b facts.Bump) (facts.Leadership,
	error) {
	s, m := a.from.Session.Get(), &a.machine
	if m.is.Role != facts.Leading || !a.Holds(s) || m.is.Session != s.ID {
		return m.is, actor.ErrNotLeading
	}
	if m.is.Epoch > b.Epoch {
		return m.is, nil // raised since
	}
	held, free := a.whileHeld(ctx, s)
	defer free()
	err := a.raise(held, s)
	a.publish()
	if err == nil && m.is.Role != facts.Leading {
		err = actor.ErrNotLeading
	}
	return m.is, err
}

// handOver gives the key up.
func (a *LeaderTracker) handOver(ctx context.Context) error {
	l := a.machine.handing
	err := a.Store.Resign(ctx, l.Session, waitLeft(l), a.from.Terms.Get().Duties == 0)
	denied := errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrInvalid)
	switch {
	case denied:
		a.Log.Warn("not-resigned", "err", err, "then", "this member leads on")
	case err != nil && !errors.Is(err, store.ErrRefused):
		return err
	default:
		a.Log.Info("handed-over", "term", l.Term)
	}
	a.Store.Succeeded("leader key")
	a.machine.handedOver(time.Now(), denied)
	return nil
}

// resign gives the leadership up when the member stops: by then the term's actors have stopped. So
// it does where it is not known whether the member has taken it. Where the host's lead function was
// abandoned and still runs, the term key does not say that the duty is over: the next leader waits
// for a lease, or until this process is known to be dead.
func (a *LeaderTracker) resign(ctx context.Context) {
	l := a.machine.held(a.from.Session.Get().ID)
	if ctx.Err() == nil || l.Role != facts.Leading {
		return
	}
	a.out.Set(facts.Leadership{Role: facts.Uncertain})
	err := a.LastCall(ctx, func(ctx context.Context) error {
		return a.Store.Resign(ctx, l.Session, waitLeft(l), a.from.Terms.Get().Duties == 0)
	})
	switch refused := errors.Is(err, store.ErrRefused); {
	case refused && l == a.machine.taking: // it was in vain
	case err != nil && !refused: // refused: it is lost, or a hand-over was carried out
		a.Log.Warn("not-resigned", "err", err, "then", "the leader key goes with the session")
	default:
		a.Log.Info("resigned", "term", l.Term)
	}
}
