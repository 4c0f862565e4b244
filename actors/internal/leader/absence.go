package leader

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// confirmAbsent finds the members that have keys or an ack and no record, and
// makes sure that each is really gone before its grace begins:
//
//   - Its record is absent at one point of the log, of which its ack and its sentinel are read as
//     well, consistently. From there on these two say whether it was back.
//   - The session of its last registration no longer exists. A record that a
//     stranger deleted leaves the session alive and its member at work, for longer than any
//     grace: such a member registers again by itself within moments.
//
// The grace is counted from the answer, which is later than the session's end.
// It covers the lease that the member may have held then: its own TTL, which may be
// longer than this leader's. It returns when to ask again.
func (a *Assigner) confirmAbsent(ctx context.Context) (again time.Time, err error) {
	view, acks, began := a.members.Get(), a.acks.Get().Items, time.Now()
	members := view.Items
	missing := map[string]bool{}
	for id := range a.assigned.members {
		missing[id] = !members.Has(id)
	}
	for id := range acks.IDs() {
		missing[id] = !members.Has(id)
	}
	for id := range a.absent {
		if !missing[id] {
			delete(a.absent, id)
		}
	}
	var ask []string
	for id, gone := range missing {
		if !gone {
			continue
		}
		ack, _ := acks.Get(id)
		if have, ok := a.absent[id]; ok && !have.since.IsZero() && have.doubt.IsZero() &&
			have.ack == ack.ModifyIndex {
			continue
		} else if began.Before(have.until) && have.askedOf == ack.ModifyIndex &&
			(have.seenAt == 0 || have.seenAt == view.Index) {
			again = actor.Earliest(again, have.until)
			continue
		}
		ask = append(ask, id)
	}
	mine := a.ofOneID(ctx)
	for _, c := range a.confirmAll(ctx, ask) {
		id, since := c.member, c.since
		ack, _ := acks.Get(id)
		if c.err != nil && mine(c.err) {
			// A token may allow sessions of some nodes only, and the key may be a stranger's: it
			// is not known whether the member is gone, and the rest goes on.
			have, now := a.absent[id], time.Now()
			if have.asked.IsZero() {
				have.asked = now
			}
			if !have.since.IsZero() && have.doubt.IsZero() && have.ack != ack.ModifyIndex {
				have.doubt = now // what was confirmed was of another ack
			}
			if have.askedOf != ack.ModifyIndex {
				have.aside, have.askedOf = aside{}, ack.ModifyIndex
			}
			have.seenAt = 0
			next := have.failed(began, now)
			switch {
			case errors.Is(c.err, store.ErrInvalid):
				have.until = now.Add(impossiblePause)
				a.odd.Skip(store.Entry{Key: a.Keys.Ack(id)}, c.err.Error())
			case errors.Is(c.err, store.ErrDenied):
				have.until = now.Add(deniedPause)
				fallthrough
			default:
				a.leaveAside("whether "+id+" is gone", c.err, next)
			}
			a.absent[id] = have
			again = actor.Earliest(again, have.until)
			continue
		}
		if c.err != nil { // what was found out about others stands
			err = c.err
			continue
		}
		asked := a.absent[id].asked
		if asked.IsZero() {
			asked = time.Now()
		}
		away := absence{asked: asked, since: since, ack: c.index, session: a.goneSession(id, c.ack),
			sentinel: c.sentinel, grace: a.graceOf(id, c.ack), stopped: c.ack.Stopped}
		if !since.IsZero() {
			away = a.sameAbsence(id, away, c.lease)
		}
		known := !a.absent[id].since.IsZero() && away.since.Equal(a.absent[id].since)
		a.absent[id] = away
		if since.IsZero() { // nothing that concerns others is a reason to ask sooner
			away.until, away.askedOf = time.Now().Add(AbsencePoll), ack.ModifyIndex
			away.seenAt = view.Index
			a.absent[id] = away
			again = actor.Earliest(again, away.until)
			continue
		}
		if n := len(a.assigned.members[id]); n > 0 && !known {
			a.Log.Info("member-vanished", "vanished", id, "items", n, "taken_over_in",
				max(0, time.Until(away.since.Add(away.grace))).Round(time.Millisecond).String())
		}
	}
	return again, err
}

// graceOf is how long a vanished member's items wait for it: for the lease that it may hold, unless
// it said that all its work has ended; and for as long as it asked for when it stopped. Where its
// ack does not say its lease it is the one that it has said before, or the longest that is known,
// this leader's TTL at the least; and what its sentinel says (confirm).
func (a *Assigner) graceOf(member string, ack protocol.Ack) time.Duration {
	if ack.Stopped && ack.Clear {
		return ack.Keep
	}
	ttl := ack.TTL
	if ack.Session == "" || ttl == 0 {
		acks := a.acks.Get()
		if known, _ := acks.Items.Get(member); known.TTL > 0 {
			ttl = known.TTL
		} else {
			ttl = max(acks.Longest, a.TTL)
		}
		ttl = max(ttl, ack.TTL)
	}
	return max(a.Grace, ttl, ack.Keep)
}

// AbsencePoll is how soon a member is looked at again that was not gone, unless the watches tell
// something new of its ack or of the records before.
const AbsencePoll = 500 * time.Millisecond

// deniedPause is how soon something is tried again that the token does not allow.
const deniedPause = 5 * time.Second

// impossiblePause is how soon something is tried again that can never succeed as it is.
const impossiblePause = 30 * time.Second

// confirm finds out whether a member is gone. It is known to be from the moment since, the zero
// time when it is not; and its ack and its sentinel are those of one point of the log at which it
// had no record. They may be newer than the watch's.
func (a *Assigner) confirm(ctx context.Context, member string) (c confirmed) {
	c.member = member
	ackKey, sentinelKey := a.Keys.Ack(member), a.Keys.AssignmentsOf(member)
	var found store.Result
	for first := true; ; first = false {
		found, c.err = a.Store.ReadTxn(ctx, store.CheckNotExists(a.Keys.Member(member)),
			store.GetOrEmpty(ackKey), store.GetOrEmpty(sentinelKey))
		if c.err == nil {
			break
		}
		if !errors.Is(c.err, store.ErrRefused) {
			return c
		}
		// It is there: the watches will tell. Or it is a stranger's, which no session holds, and
		// which would keep its items for ever. A member that lives has its record locked, or writes
		// it again. Without that one it is asked about once more: its absence may be one that lasts
		// already.
		var deleted bool
		deleted, c.err = a.deleteRecord(ctx, member, "")
		if c.err != nil || !deleted || !first {
			return c
		}
	}
	e, _ := found.Entry(ackKey)
	read, _, _ := a.Keys.ReadAck(e)
	c.ack, c.index = read.Ack, e.ModifyIndex
	e, _ = found.Entry(sentinelKey)
	var registered string
	if registered, c.lease = protocol.ReadSentinel(e.Value); registered != "" {
		c.sentinel = e.ModifyIndex
	}
	if c.ack.Session == "" || c.ack.TTL == 0 { // it was deleted, or written over
		c.ack.TTL = c.lease
	}
	alive, err := a.sessionAlive(ctx, member, &c.ack, registered)
	if c.err = err; err == nil && !alive {
		c.since = time.Now()
	}
	return c
}
