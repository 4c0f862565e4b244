package member

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// LeaderTracker campaigns for the leadership and says who has it. It leads while
// the leader key is locked by its session and its lease holds; a failed poll, a
// slow or an absent Consul costs nobody the leadership.
type LeaderTracker struct {
	*actor.Base
	out        *messages.State[messages.Leadership]
	session    messages.Reader[messages.Session]
	membership messages.Reader[messages.Membership]
	key        messages.Reader[LeaderKey]
	bump       *messages.Mailbox[messages.Bump, messages.Leadership]
	leads      *atomic.Int32 // how many of the host's lead functions run
	control    messages.Reader[messages.Control]
	members    messages.Reader[messages.Members]
	terms      messages.Reader[TermsRun]
	dutyEnds   *messages.State[uint64] // the term whose duty is to end
	lease      *LeaseEnforcer

	odd  protocol.StrangeKeys
	view uint64 // of the leader key when the last lock was sent
	// refused is since when every lock has been refused; zero: the last one was not
	refused time.Time
	// behind is the view that is older than the epoch, and since when.
	behind   uint64
	behindAt time.Time
	leases   unrecordedLeases // what was found out about leaders that write no term
	clearAt  time.Time        // until when this process waits, or waited, for leaders before it
	// of the key as written last, or read since: other flags are what makes a write raise ModifyIndex
	flags uint64

	// taking is the leadership for which the last take was sent, if it is not known whether that was
	// carried out; its Role is Leading then. A view of another leader may be of before it.
	taking   messages.Leadership
	handing  messages.Leadership // that is being handed over; its Role is Leading then
	handedAt time.Time           // when that was begun last
	// handingPast are the members that are not to take it: see [protocol.Term.Past]
	handingPast []string
	restUntil   time.Time // until when the leadership is left to others, or one has it
	pastTerm    uint64    // the version of the term that names this member as one of those
	pastUntil   time.Time // and until when it leaves the leadership to others for that
	keepUntil   time.Time // until when it does not give way because it is drained
	hindered    hindrance // what it has tried in vain
}

// NewLeaderTracker wires the actor.
func NewLeaderTracker(b *actor.Base, out *messages.State[messages.Leadership],
	session messages.Reader[messages.Session], membership messages.Reader[messages.Membership],
	key messages.Reader[LeaderKey], bump *messages.Mailbox[messages.Bump, messages.Leadership],
	leads *atomic.Int32, control messages.Reader[messages.Control],
	members messages.Reader[messages.Members], terms messages.Reader[TermsRun],
	dutyEnds *messages.State[uint64], lease *LeaseEnforcer) *LeaderTracker {
	return &LeaderTracker{Base: b, out: out, session: session, membership: membership, key: key,
		bump: bump, leads: leads, control: control, members: members, terms: terms,
		dutyEnds: dutyEnds, lease: lease, odd: protocol.StrangeKeys{Log: b.Log}}
}

// behindLimit is how long a view of the leader key may be older than the epoch: a lagging server
// catches up. Then it is asked for the key whether that is a slow watch, or a Consul that was
// restored from a snapshot and has forgotten assignments of this leader with the epoch.
const behindLimit = 2 * time.Second

// Run is the actor: see [supervisor.Child].
func (a *LeaderTracker) Run(ctx context.Context) error {
	defer a.resign(ctx)
	bumps := a.bump.Open()
	defer bumps.Close()
	session, membership, key := a.session.Subscribe(), a.membership.Subscribe(), a.key.Subscribe()
	control, members, terms := a.control.Subscribe(), a.members.Subscribe(), a.terms.Subscribe()
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

// step follows what the watch and the lease say; it returns when to look again.
func (a *LeaderTracker) step(ctx context.Context) (again time.Time, err error) {
	s, k, l := a.session.Get(), a.key.Get(), a.out.Get()
	if a.handing.Role == messages.Leading {
		return a.endHandOver(ctx, s)
	}
	now := time.Now()
	m := a.membership.Get()
	do, lost := leaderFacts{now: now, session: s.ID, lease: a.Holds(s),
		member: m.In(s.ID), leaving: m.Phase == messages.Leaving, key: k, was: l, sent: a.view,
		behind: a.behind, behindAt: a.behindAt}.next()
	if lost {
		a.set(messages.Leadership{Role: messages.Vacant}, "the leader key was deleted or taken")
	}
	// The lease is looked at once a second, by both clocks, for a timer stands still
	// while the host is suspended.
	watchLease := now.Add(min(s.Lease.Left(now)-a.LeaseMargin, time.Second))
	held, free := a.whileHeld(ctx, s)
	defer free()
	makesWay := ""
	if l.Role == messages.Leading && !lost && do != stepUncertain {
		// Also without an epoch that counts: it may be in vain that it tries to take one.
		makesWay = a.toHandOver(held, l)
		if makesWay != "" && a.endDuty(l, makesWay) {
			a.handOver(l)
			return now, nil
		}
		if makesWay == "" && a.dutyEnds.Get() != 0 { // the order was taken back
			a.dutyEnds.Set(0)
		}
	}
	switch do {
	case stepUncertain:
		// Not even that another does not lead by now is known.
		a.set(messages.Leadership{Role: messages.Uncertain}, "the lease is over")
		return time.Time{}, nil
	case stepBehind:
		if a.behind != k.View {
			a.behind, a.behindAt = k.View, now
		}
	case stepForgotten:
		if stands, err := a.stands(held, l); stands || err != nil {
			a.behindAt = now
			return watchLease, err
		}
		a.Log.Warn("consul-forgot-the-epoch", "key", a.Keys.Leader(), "index", k.Index, "epoch",
			l.Epoch, "then", "taking a new epoch and reading everything anew")
		l.Resets++
		return watchLease, a.raise(held, s, l)
	case stepTouched:
		a.Log.Warn("leader-key-touched", "key", a.Keys.Leader(), "index", k.Entry.ModifyIndex,
			"epoch", l.Epoch, "then", "taking a new epoch")
		return watchLease, a.raise(held, s, l)
	case stepLead:
		if makesWay != "" {
			return watchLease, nil
		}
		again, err := a.clear(held, l)
		return actor.Earliest(watchLease, again), err
	case stepFollow:
		// The leadership has found another: should that one go as well, nobody else may be there.
		a.refused, a.restUntil = time.Time{}, time.Time{}
		a.set(messages.Leadership{Role: messages.Following, Leader: a.nameOf(k.Entry),
			Session: k.Entry.Session}, "")
		return time.Time{}, nil
	case stepVacant:
		a.set(messages.Leadership{Role: messages.Vacant}, "")
		return time.Time{}, nil
	case stepCampaign:
		if now.Before(a.restUntil) {
			a.set(messages.Leadership{Role: messages.Vacant}, "")
			return a.restUntil, nil
		}
		return a.campaign(ctx, s)
	}
	return watchLease, nil
}

// whileHeld ends when the lease no longer covers the leadership: what a leader asks of Consul must
// not keep it from saying by then that it leads no more. A lease that is renewed meanwhile goes on:
// a new epoch takes three answers, for which what is left of one lease may be too short.
func (a *LeaderTracker) whileHeld(ctx context.Context, s messages.Session) (context.Context,
	context.CancelFunc) {
	return a.lease.bind(ctx, s.ID)
}

// campaign tries to take the leadership. Consul wakes no watch at the end of a lock-delay, so
// a refused candidate asks again by the clock.
func (a *LeaderTracker) campaign(ctx context.Context, s messages.Session) (time.Time, error) {
	l, err := a.take(ctx, s)
	if errors.Is(err, errPast) {
		a.set(messages.Leadership{Role: messages.Vacant}, "")
		return a.pastUntil, nil
	}
	if errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrSessionGone) {
		a.set(messages.Leadership{Role: messages.Vacant}, "")
		if a.refused.IsZero() {
			a.refused = time.Now()
		}
		return time.Now().Add(LockPoll(a.LockDelay, time.Since(a.refused))), nil
	}
	a.refused = time.Time{}
	if err != nil {
		return time.Time{}, err
	}
	a.Store.Succeeded("leader key")
	if ctx.Err() != nil { // it is resigned before anything of the term has begun
		a.taking = l
		return time.Time{}, nil
	}
	a.taking = messages.Leadership{}
	a.set(l, "")
	return time.Now(), nil
}

// sending notes what is known of the key when a lock is sent: what was seen by then
// says nothing against the lock's outcome.
func (a *LeaderTracker) sending() {
	a.view = a.key.Get().View
	a.flags++
}

// raise takes a new epoch within the term. Its condition is the index of the leader key at which
// this session was seen to hold it, so that a copy of it that arrives late does nothing, and nobody
// else's key is taken. A refusal for good means that the term is over. An
// epoch that is not larger than the one before is none: what was sent in that one would still be
// accepted. One that a stop cuts off may come between the two requests of the resignation, which
// then reads again.
func (a *LeaderTracker) raise(ctx context.Context, s messages.Session,
	l messages.Leadership) error {
	at := l.Epoch
	if k := a.key.Get(); k.Entry.Session == s.ID && k.Entry.ModifyIndex > at {
		at, a.flags = k.Entry.ModifyIndex, k.Entry.Flags
	}
	for range 5 {
		a.sending()
		result, err := a.Store.Txn(ctx,
			store.Rewrite(a.Keys.Leader(), []byte(a.ID), a.flags, at, s.ID)...)
		switch {
		case err == nil && (result.Index <= at || result.Index == l.Epoch):
			// it changed nothing; or Consul was restored, and counts anew
			at = result.Index
			continue
		case err == nil:
			a.Store.Succeeded("leader key")
			l.Epoch = result.Index
			a.set(l, "")
			return nil
		case !errors.Is(err, store.ErrRefused) && !errors.Is(err, store.ErrSessionGone):
			return err
		}
		// An earlier try was applied after all, a stranger has touched the key, or it is another's.
		e, found, _, err := a.Store.Get(ctx, a.Keys.Leader(), store.Consistent)
		if err != nil {
			return err
		}
		if !found || e.Session != s.ID || e.ModifyIndex == at {
			a.set(messages.Leadership{Role: messages.Vacant}, "the leader key was lost")
			return nil
		}
		at, a.flags = e.ModifyIndex, e.Flags
	}
	return fmt.Errorf("a new epoch: %w: others write to %s all the time", store.ErrUnreachable,
		a.Keys.Leader())
}

// stands asks whether the key is as this leader has locked it last: then it is the watch that is
// slow, and Consul has forgotten nothing.
func (a *LeaderTracker) stands(ctx context.Context, l messages.Leadership) (bool, error) {
	e, _, _, err := a.Store.Get(ctx, a.Keys.Leader(), store.Consistent)
	return err == nil && e.Session == l.Session && e.ModifyIndex == l.Epoch, err
}

// newEpoch answers the assigner, for which the outcome of a write is unknown: with
// the new epoch every earlier write that is still on its way will be refused.
func (a *LeaderTracker) newEpoch(ctx context.Context, b messages.Bump) (messages.Leadership,
	error) {
	s, l := a.session.Get(), a.out.Get()
	if l.Role != messages.Leading || !a.Holds(s) || l.Session != s.ID {
		return l, actor.ErrNotLeading
	}
	if l.Epoch > b.Epoch {
		return l, nil // raised since
	}
	held, free := a.whileHeld(ctx, s)
	defer free()
	if err := a.raise(held, s, l); err != nil {
		return l, err
	}
	if l = a.out.Get(); l.Role != messages.Leading {
		return l, actor.ErrNotLeading
	}
	return l, nil
}

// nameOf is who the leader says it is; a stranger may have written over it.
func (a *LeaderTracker) nameOf(e store.Entry) string {
	id, _, err := a.Keys.ReadLeader(e)
	if err != nil {
		a.odd.Skip(e, err.Error())
	}
	return id
}

// set publishes l if it says anything new, and tells the log what that means.
func (a *LeaderTracker) set(l messages.Leadership, why string) {
	old := a.out.Get()
	if l == old {
		return
	}
	if old.Role == messages.Leading && l.Role != messages.Leading {
		a.Log.Warn("lost-leadership", "term", old.Term, "why", why)
	}
	switch {
	case l.Role == messages.Leading && old.Term != l.Term:
		a.Log.Info("became-leader", "term", l.Term)
	case l.Role == messages.Leading:
		a.Log.Info("new-epoch", "term", l.Term, "epoch", l.Epoch)
	case l.Role == messages.Following && old.Leader != l.Leader:
		a.Log.Info("new-leader", "leader", l.Leader)
	}
	a.out.Set(l)
}

// resign gives the leadership up when the member stops: by then the term's actors have stopped. So
// it does where it is not known whether the member has taken it. A
// deleted key has no lock-delay, so a successor need not wait. Where the host's lead function was
// abandoned and still runs, the term key does not say so: the next leader waits for a lease, or
// until this process is known to be dead.
func (a *LeaderTracker) resign(ctx context.Context) {
	l := a.out.Get()
	past := a.past(l)
	switch { // the stop came in between
	case a.handing.Role == messages.Leading:
		l, past = a.handing, a.handingPast
	case l.Role != messages.Leading && a.taking.Session == a.session.Get().ID:
		l, past = a.taking, nil
	}
	if ctx.Err() == nil || l.Role != messages.Leading {
		return
	}
	a.out.Set(messages.Leadership{Role: messages.Uncertain})
	err := a.LastCall(ctx, func(ctx context.Context) error {
		return a.Store.Resign(ctx, l.Session, waitLeft(l), a.leads.Load() == 0, past...)
	})
	refused := errors.Is(err, store.ErrRefused)
	if refused && l == a.taking {
		return // it was in vain
	}
	if err != nil && !refused { // refused: a hand-over that was cut off was carried out, or it is lost
		a.Log.Warn("not-resigned", "err", err, "then", "the leader key goes with the session")
		return
	}
	a.Log.Info("resigned", "term", l.Term)
}
