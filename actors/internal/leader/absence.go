package leader

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// absence is a member that has keys or an ack and no record.
type absence struct {
	asked   time.Time // when it was missed first
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

	until time.Time // it is not asked about again before
}

// ends is when the grace does; zero: that is not known.
func (x absence) ends() time.Time {
	if x.since.IsZero() || !x.doubt.IsZero() {
		return time.Time{}
	}
	return x.since.Add(x.grace)
}

func (x absence) over(now time.Time) bool {
	ends := x.ends()
	return !ends.IsZero() && !now.Before(ends)
}

// same tells whether an absence is the one of which this was known.
func (x absence) same(ack uint64, session string, sentinel uint64) bool {
	return x.ack == ack && x.session == session || x.sentinel != 0 && x.sentinel == sentinel
}

// word says how a member went away.
func (x absence) word() string {
	if x.stopped {
		return protocol.EventLeft
	}
	return protocol.EventLost
}

// lasting tells whether an absence could not be confirmed, or not again, for so long that nothing
// but its own items waits for it: keys that name a session which lives.
func (in *inputs) lasting(x absence) bool {
	return x.ends().IsZero() && !x.asked.IsZero() &&
		!in.now.Before(actor.Latest(x.asked, x.doubt).Add(in.hold))
}

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

// absences are the members that are missing, and what the last leader has noted of them.
type absences struct {
	away   map[string]absence
	handed map[string]protocol.Waited
}

func newAbsences() absences {
	return absences{map[string]absence{}, map[string]protocol.Waited{}}
}

// forget makes every grace begin anew.
func (x absences) forget() {
	clear(x.away)
	clear(x.handed)
}

// applied takes in an order that was carried out.
func (x absences) applied(o *order) {
	if o.kind == orderSweep {
		delete(x.away, o.from)
	}
}

// refused takes in that a write about a member was refused: it may have been back.
func (x absences) refused(member string, now time.Time) {
	if away, ok := x.away[member]; ok && away.doubt.IsZero() {
		away.doubt = now
		x.away[member] = away
	}
}

// AbsencePoll is how soon a member is looked at again that was not gone.
const AbsencePoll = 500 * time.Millisecond

// see finds the members that are missing. It returns those that are to be asked about, and when to
// ask about others.
func (x absences) see(now time.Time, members messages.Table[messages.Member], acks messages.Table[messages.Ack],
	assigned known) (ask []string, again time.Time) {
	missing := map[string]bool{}
	for id := range assigned {
		missing[id] = !members.Has(id)
	}
	for id := range acks.IDs() {
		missing[id] = !members.Has(id)
	}
	maps.DeleteFunc(x.away, func(id string, _ absence) bool { return !missing[id] })
	for id, gone := range missing {
		if !gone {
			continue
		}
		ack, _ := acks.Get(id)
		have := x.away[id]
		switch {
		case !have.since.IsZero() && have.doubt.IsZero() && have.ack == ack.ModifyIndex:
		case now.Before(have.until):
			again = actor.Earliest(again, have.until)
		default:
			ask = append(ask, id)
		}
	}
	return ask, again
}

// failed takes in that nothing could be found out about a member: its keys name what can never be
// asked, or the token does not allow it. The rest goes on.
func (x absences) failed(id string, ack uint64, now time.Time) (again time.Time) {
	have := x.away[id]
	if have.asked.IsZero() {
		have.asked = now
	}
	if !have.since.IsZero() && have.doubt.IsZero() && have.ack != ack {
		have.doubt = now // what was confirmed was of another ack
	}
	have.until = now.Add(skipPause)
	x.away[id] = have
	return have.until
}

// found takes in what was found out about a member: now.since is zero if it is not gone. Lease is
// what its sentinel names, least the leader's own grace. It tells whether the absence is new.
func (x absences) found(id string, now absence, lease, least, hold time.Duration) (absence, bool) {
	have := x.away[id]
	if now.asked = have.asked; now.asked.IsZero() {
		now.asked = time.Now()
	}
	if now.since.IsZero() {
		x.away[id] = now
		return now, false
	}
	confirmed := now.since
	if !have.since.IsZero() && have.same(now.ack, now.session, now.sentinel) {
		now.since = have.since
		if have.ack == now.ack {
			now.grace = max(now.grace, have.grace)
		} else {
			now.grace = graceOfMoved(have.grace, now.grace, lease, least, have.stopped)
			now.stopped = have.stopped
		}
	}
	w, noted := x.handed[id]
	if noted && now.same(w.Ack, w.Session, w.Sentinel) {
		if w.Ack != now.ack { // Of may be the brake's
			now.grace = graceOfMoved(min(w.Of, now.grace), now.grace, lease, least, now.stopped)
		}
		now.since = actor.Earliest(now.since, confirmed.Add(-min(w.For, max(now.grace, hold))))
	}
	delete(x.handed, id)
	x.away[id] = now
	return now, have.since.IsZero() || !now.since.Equal(have.since)
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
func graceOfMoved(first, says, lease, least time.Duration, stopped bool) time.Duration {
	most := max(lease, least)
	switch {
	case lease == 0:
		return max(first, says)
	case stopped:
		return max(first, most)
	}
	return most
}

// graceOf is how long a vanished member's items wait for it: for the lease that it may hold, unless
// it said that all its work has ended; and for as long as it asked for when it stopped. Where its
// ack does not say its lease it is the one that it has said before, or the longest that is known,
// this leader's TTL at the least; and what its sentinel says (confirm).
func graceOf(member string, ack protocol.Ack, acks messages.Acks,
	set actor.Settings) time.Duration {
	if ack.Stopped && ack.Clear {
		return ack.Keep
	}
	ttl := ack.TTL
	if ack.Session == "" || ttl == 0 {
		if known, _ := acks.Items.Get(member); known.TTL > 0 {
			ttl = known.TTL
		} else {
			ttl = max(acks.Longest, set.TTL)
		}
		ttl = max(ttl, ack.TTL)
	}
	return max(set.Grace, ttl, ack.Keep)
}

// goneSession names the sessions that an absence is about: that of the last registration, or,
// without a readable ack, those that the member's keys were granted to.
func goneSession(ack protocol.Ack, keys map[string]messages.Assignment) string {
	if ack.Session != "" {
		return ack.Session
	}
	sessions := map[string]bool{}
	for _, key := range keys {
		sessions[key.Session] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(sessions)), " ")
}

// mostNoted keeps the leader state within what Consul takes.
const mostNoted = 1000

// waited is what there is to note: of each absence the time waited so far, in whole steps of the
// given length (0: to the moment), and of what the last leader has noted what this one cannot
// confirm itself. Least is how long each is waited for under the brake. It returns when there is
// more to note.
func (x absences) waited(now time.Time, step, least time.Duration, still func(id string) bool) (
	all map[string]protocol.Waited, again time.Time) {
	all = map[string]protocol.Waited{}
	for id, away := range x.away {
		if away.since.IsZero() || away.ack == 0 || away.session == "" {
			continue // by nothing could a successor tell that it is the same absence
		}
		most := max(away.grace, least)
		d := min(now.Sub(away.since), most)
		if step > 0 && d < most {
			d -= d % step
			again = actor.Earliest(again, away.since.Add(min(most, d+step)))
		}
		if d >= 0 && len(all) < mostNoted {
			all[id] = protocol.Waited{Ack: away.ack, Session: away.session,
				Sentinel: away.sentinel, For: d, Of: most}
		}
	}
	for id, w := range x.handed {
		if _, judged := all[id]; !judged && still(id) && len(all) < mostNoted {
			all[id] = w
		}
	}
	return all, again
}
