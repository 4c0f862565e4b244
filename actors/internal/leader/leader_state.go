package leader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// A grace is waited for once. An absence outlives full reads and new epochs of its leader, and
// leaders that come and go. Each leader notes in the leader state how long a member has been waited
// for, as a duration, which is never too long. Whoever finds the note goes on from there, if it is
// the same absence: no record, and the same ack with the same session, which is gone, or the same
// sentinel.
//
// A registration writes both, with a value that was never there. While there is no record nobody
// else of ours writes either: what a member writes to its ack goes under check-session of its
// record, late copies too. So an ack that is another one under the same sentinel is a stranger's,
// and the member was not back.
//
// Only a Consul that went back makes an absence begin anew: the member may have been back in what
// it has forgotten.

// sameAbsence takes over what was known of the absence that was just confirmed: how long it has
// lasted already, and how long it is waited for, should what is in the ack now say something else.
// Lease is the one that the sentinel names; 0: none.
func (a *Assigner) sameAbsence(member string, now absence, lease time.Duration) absence {
	confirmed, have := now.since, a.absent[member]
	if !have.since.IsZero() && have.same(now.ack, now.session, now.sentinel) {
		now.since = have.since
		if have.ack == now.ack {
			now.grace = max(now.grace, have.grace)
		} else {
			now.grace = a.graceOfMoved(have.grace, now.grace, lease, have.stopped)
			now.stopped = have.stopped
		}
	}
	w, ok := a.handed[member]
	if ok && now.same(w.Ack, w.Session, w.Sentinel) {
		if w.Ack != now.ack {
			first := min(w.Of, now.grace) // Of may be the brake's
			now.grace = a.graceOfMoved(first, now.grace, lease, now.stopped)
		}
		most := max(now.grace, a.BrakeHold)
		now.since = actor.Earliest(now.since, confirmed.Add(-min(w.For, most)))
	}
	delete(a.handed, member)
	return now
}

// graceOfMoved is the grace of an absence whose ack has moved since it was first confirmed. One of
// the two acks is a stranger's. It may be the first, with the right one put back since: it cannot
// be known. So neither counts, but the lease that the sentinel names, or the leader's own grace if
// that is longer. It is the longest lease that the member can have: its own acks say no more, and
// they may say less only when a predecessor's lease is over, or when the member has stopped. So the
// grace is never shorter than what its own ack says of its lease, and what a stranger says makes it
// no longer than that.
//
// For as long as the first ack asks that a stopped member's items be kept, they are. Where the
// sentinel names no lease (0), the longer grace counts.
func (a *Assigner) graceOfMoved(first, says, lease time.Duration, stopped bool) time.Duration {
	most := max(lease, a.Grace)
	switch {
	case lease == 0:
		return max(first, says)
	case stopped:
		return max(first, most)
	}
	return most
}

// same tells whether an absence is the one of which this was known.
func (x absence) same(ack uint64, session string, sentinel uint64) bool {
	return x.ack == ack && x.session == session || x.sentinel != 0 && x.sentinel == sentinel
}

// goneSession names the sessions that an absence is about: that of the last registration, or,
// without a readable ack, those that the member's keys were granted to.
func (a *Assigner) goneSession(member string, ack protocol.Ack) string {
	if ack.Session != "" {
		return ack.Session
	}
	sessions := map[string]bool{}
	for _, key := range a.assigned.members[member] {
		sessions[key.Session] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(sessions)), " ")
}

// noteStep is how often the time waited is noted, in parts of the TTL; and how often a note that
// stays the same is written anew, in parts of its life.
const noteStep = 4

// readLeaderState reads what the last leader, or an earlier incarnation of this assigner, has
// noted.
func (a *Assigner) readLeaderState(ctx context.Context) error {
	e, _, _, err := a.Store.Get(ctx, a.Keys.LeaderState(), store.Consistent)
	if err != nil {
		return err
	}
	a.notedIndex, a.notedKnown = e.ModifyIndex, true
	if a.noted, err = a.Keys.ReadLeaderState(e); err != nil {
		a.odd.Skip(e, err.Error())
	}
	return nil
}

// mostInherit is how often what was noted is tried to be read, while Consul answers other
// questions, before the leader goes on without: it then waits anew for who is gone. These tries
// take 4 s.
const mostInherit = 6

// inherit takes over what was noted before this assigner began.
func (a *Assigner) inherit(ctx context.Context) error {
	a.handed = map[string]protocol.Waited{}
	if err := a.readLeaderState(ctx); err != nil {
		if a.noteFailed++; !a.ofOneID(ctx)(err) || errors.Is(err, store.ErrUnreachable) &&
			a.noteFailed <= mostInherit {
			return err
		}
		a.Log.Warn("leader-state-not-read", "err", err, "then",
			"waiting anew for members that are gone")
		a.inherited = true
		return nil
	}
	if n := a.noted.Peak; n > 0 {
		a.braked, a.peak, a.spent = brakeForItems, n, a.noted.Override
		a.sizes.past = append(a.sizes.past, pastSize{time.Now(), n})
	}
	if time.Since(a.noted.At).Abs() < max(a.noted.Life, a.life()) {
		maps.Copy(a.handed, a.noted.Absent)
	}
	a.inherited = true
	return nil
}

func (a *Assigner) life() time.Duration { return protocol.NoteLife(a.TTL, a.LockDelay) }

// waited is what there is to note: of each absence the time waited so far in whole steps, or to the
// moment. An absence is noted at once, so that those who look see how long it is waited for. What
// the last leader has noted of one that this leader cannot confirm is passed on as it is.
func (a *Assigner) waited(now time.Time, exact bool) map[string]protocol.Waited {
	step, all := a.TTL/noteStep, map[string]protocol.Waited{}
	for id, away := range a.absent {
		if away.since.IsZero() || away.ack == 0 || away.session == "" {
			continue // by nothing could a successor tell that it is the same absence
		}
		most := a.noteUntil(away)
		d := min(now.Sub(away.since), most)
		if !exact && d < most {
			d -= d % step
		}
		if d >= 0 && len(all) < mostNoted {
			all[id] = protocol.Waited{Ack: away.ack, Session: away.session,
				Sentinel: away.sentinel, For: d, Of: most}
		}
	}
	members, acks := a.members.Get().Items, a.acks.Get().Items
	for id, w := range a.handed {
		_, judged := all[id]
		away := !members.Has(id) && (acks.Has(id) || len(a.assigned.members[id]) > 0)
		if away && !judged && len(all) < mostNoted {
			all[id] = w
		}
	}
	return all
}

// noteUntil is how long an absence is waited for: for its grace, and under the brake until that
// lets go.
func (a *Assigner) noteUntil(away absence) time.Duration {
	if a.brakeText != "" {
		return max(away.grace, a.BrakeHold)
	}
	return away.grace
}

// mostNoted keeps the key within what Consul takes.
const mostNoted = 1000

// note writes the leader state when there is something new to it, and anew before it is too old as
// long as it names anybody; it returns when that will be. This leader does not need it for
// anything, so nothing waits for it, and no failure of it concerns anything else: only that of an
// exact note is returned, which is the last one. errStale: the leader key has moved on from this
// epoch.
func (a *Assigner) note(ctx context.Context, exact bool) (again time.Time, err error) {
	now := time.Now()
	next := protocol.LeaderState{By: a.session, At: now.UTC(), Life: a.life(),
		Brake: a.brakeText, Peak: a.peak, Override: a.spent, Absent: a.waited(now, exact)}
	for _, away := range a.absent {
		most := a.noteUntil(away)
		if waits := now.Sub(away.since); !away.since.IsZero() && waits < most {
			step := a.TTL / noteStep
			again = actor.Earliest(again, away.since.Add(min(most, waits-waits%step+step)))
		}
	}
	names, ages := len(next.Absent) > 0, a.life()/noteStep
	same := next.Brake == a.noted.Brake && next.Peak == a.noted.Peak &&
		next.Override == a.noted.Override &&
		(next.Brake == "" && !names || next.By == a.noted.By)
	if same && maps.Equal(next.Absent, a.noted.Absent) {
		switch {
		case !names:
			return again, nil
		case !exact && now.Sub(a.noted.At).Abs() < ages:
			return actor.Earliest(again, a.noted.At.Add(ages)), nil
		}
	}
	if pause := a.notedAt.Add(a.TTL / noteStep / 4); same && !exact && now.Before(pause) {
		return actor.Earliest(again, pause), nil // many have their steps at different times
	}
	if now.Before(a.noting.until) && !exact {
		return actor.Earliest(again, a.noting.until), nil
	}
	a.notedAt = now
	inVain := func(err error) (time.Time, error) {
		next := actor.Earliest(again, a.notNoted(now, err))
		if !exact {
			err = nil
		}
		return next, err
	}
	if !a.notedKnown {
		if err := a.readLeaderState(ctx); err != nil {
			return inVain(err)
		}
	}
	r, err := a.Store.Txn(ctx, store.CheckIndex(a.Keys.Leader(), a.epoch),
		store.CAS(a.Keys.LeaderState(), next.Encode(), 0, a.notedIndex))
	if err != nil {
		a.notedKnown = false
		if r, ok := errors.AsType[*store.RefusedError](err); ok && r.Key == a.Keys.Leader() {
			return again, errStale
		}
		if !errors.Is(err, store.ErrRefused) {
			a.Log.Debug("leader-state-not-noted", "err", err)
		}
		return inVain(err)
	}
	a.noting = aside{}
	a.noted, a.notedIndex = next, r.Index
	if names {
		again = actor.Earliest(again, now.Add(ages))
	}
	return again, nil
}

// notNoted returns when a note is tried again that was begun at a moment: nothing else waits for it
// for long.
func (a *Assigner) notNoted(began time.Time, err error) time.Time {
	now := time.Now()
	next := a.noting.failed(began, now)
	switch {
	case errors.Is(err, store.ErrDenied), errors.Is(err, store.ErrInvalid):
		next = now.Add(impossiblePause)
	case next.Before(now.Add(time.Second)):
		next = now.Add(time.Second)
	}
	a.noting.until = next
	return next
}

// handOn notes the times to the moment, when this member stops while it leads, or hands its
// leadership over: then it says already that nobody leads, and the epoch still guards the note.
// Where nothing comes back from Consul the stop is not held up for it: a note is no older than T/4.
// A note that the stop has cut off may come between the read and the write: then it is read again.
func (a *Assigner) handOn(ctx context.Context) {
	l := a.leadership.Get()
	mine := l.Role == messages.Leading && l.Term == a.term || l.Role == messages.Vacant
	if ctx.Err() == nil || !mine || len(a.waited(time.Now(), true)) == 0 {
		return
	}
	a.Ends(ctx)
	_ = a.LastCall(ctx, func(ctx context.Context) error {
		for tries := 3; ; tries-- {
			_, err := a.note(ctx, true)
			if tries == 1 || !errors.Is(err, store.ErrRefused) {
				return err
			}
		}
	})
}
