package leader

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// noteStep is how often the time waited is noted at the least, in parts of the TTL; and how often a
// note that stays the same is written anew, in parts of its life.
const noteStep = 4

// noteSoon is how soon the time waited is noted first. The pauses between notes are a fourth of the
// time that this leader has waited. So a leader that dies loses a fifth of what it has waited, or
// noteSoon: leaders that live for a second get on.
const noteSoon = 100 * time.Millisecond

// notePause is how soon a note is written again that was in vain.
const notePause = time.Second

// noted is the leader state as it was read or written last. Its leader does not need it for
// anything.
type noted struct {
	state     protocol.LeaderState
	index     uint64
	known     bool      // both count
	bad       string    // why it could not be read
	inherited bool      // what the last leader has noted was taken in
	at        time.Time // when it was written last
	begun     time.Time // since when this leader has waited for those that it names
	notBefore time.Time
}

// read reads it.
func (n *noted) read(ctx context.Context, s *protocol.Store) error {
	e, _, _, err := s.Get(ctx, s.Keys().LeaderState(), store.Consistent)
	if err != nil {
		return err
	}
	n.index, n.known, n.bad = e.ModifyIndex, true, ""
	if n.state, err = s.Keys().ReadLeaderState(e); err != nil {
		n.bad = err.Error()
	}
	return nil
}

// due tells whether next is to be written now, and when that is to be asked again. Exact: it is the
// last note of its leader.
func (n *noted) due(next protocol.LeaderState, ttl time.Duration, exact bool) (bool, time.Time) {
	names, was := len(next.Absent) > 0, n.state
	same := next.Brake == was.Brake && maps.Equal(next.Refused, was.Refused) &&
		(next.Brake == "" && !names && len(next.Refused) == 0 || next.By == was.By)
	if n.begun.IsZero() || !maps.EqualFunc(next.Absent, was.Absent, protocol.Waited.Same) {
		n.begun = next.At
	}
	stands := same && maps.Equal(next.Absent, was.Absent)
	pause := min(max(next.At.Sub(n.begun)/4, noteSoon), ttl/noteStep)
	switch {
	case exact:
		return !same || names || !maps.Equal(next.Absent, was.Absent), time.Time{}
	case stands && !names:
		return false, time.Time{}
	case stands && next.At.Sub(was.At).Abs() < next.Life/noteStep:
		return false, was.At.Add(next.Life / noteStep)
	case next.At.Before(n.notBefore):
		return false, n.notBefore
	case same && next.At.Before(n.at.Add(pause)):
		return false, n.at.Add(pause)
	}
	if !names {
		return true, time.Time{}
	}
	return true, next.At.Add(pause)
}

func (a *Assigner) life() time.Duration { return protocol.NoteLife(a.TTL, a.LockDelay) }

// note writes the leader state when there is something new to it, and anew before it is too old as
// long as it names anybody; it returns when that will be. Nothing waits for it, and no failure of
// it concerns anything else: only that of an exact note is returned, which is the last one.
// errStale: the leader key has moved on from this epoch.
func (a *Assigner) note(ctx context.Context, exact bool) (again time.Time, err error) {
	now, least := time.Now(), time.Duration(0)
	if a.brake.text != "" {
		least = a.BrakeHold // under the brake they wait until that lets go
	}
	members, acks := a.views.members.Get().Items, a.views.acks.Get().Items
	absent := a.absences.waited(now, least, func(id string) bool {
		return !members.Has(id) && (acks.Has(id) || len(a.known[id]) > 0)
	})
	next := protocol.LeaderState{By: a.epoch.Session, At: now.UTC(), Life: a.life(),
		Brake: a.brake.text, Absent: absent, Refused: a.refusals.named(now)}
	write, again := a.noted.due(next, a.TTL, exact)
	if !write {
		return again, nil
	}
	a.noted.at = now
	if !a.noted.known {
		err = a.noted.read(ctx, a.Store)
	}
	if err == nil {
		var r store.Result
		r, err = a.Store.Txn(ctx, store.CheckIndex(a.Keys.Leader(), a.epoch.Epoch),
			store.CAS(a.Keys.LeaderState(), next.Encode(), 0, a.noted.index))
		a.noted.index = r.Index
	}
	if err == nil {
		a.noted.state, a.noted.notBefore = next, time.Time{}
		return again, nil
	}
	a.noted.known, a.noted.notBefore = false, time.Now().Add(notePause)
	if r, ok := errors.AsType[*store.RefusedError](err); ok && r.Key == a.Keys.Leader() {
		return again, errStale
	}
	a.Log.Debug("leader-state-not-noted", "err", err)
	if exact {
		return again, err
	}
	return actor.Earliest(again, a.noted.notBefore), nil
}

// handOn notes the times to the moment, when this member stops while it leads, or hands its
// leadership over: then it says already that nobody leads, and the epoch still guards the note.
// Where nothing comes back from Consul the stop is not held up for it: a note is no older than T/4.
// A note that the stop has cut off may come between the read and the write: then it is read again.
func (a *Assigner) handOn(ctx context.Context) {
	l := a.views.leadership.Get()
	mine := l.Role == facts.Leading && l.Term == a.term || l.Role == facts.Vacant
	if ctx.Err() == nil || !mine || len(a.absences.away)+len(a.absences.handed) == 0 {
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
