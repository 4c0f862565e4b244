package leader

import (
	"cmp"
	"maps"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// absence is a member that has keys or an ack and no record.
type absence struct {
	asked   time.Time     // when it was missed first
	since   time.Time     // when it was confirmed; zero: not yet
	ack     uint64        // its acks key's ModifyIndex then; 0: there was none
	session string        // of its last registration, which is gone
	grace   time.Duration // how long its items wait for it
	doubt   bool          // it is to be confirmed again: a write about it was refused
	stopped bool          // it said that it stops, and that all its work has ended

	until time.Time // it is not asked about again before
}

// ends is when the grace does; zero: that is not known.
func (x absence) ends() time.Time {
	if x.since.IsZero() || x.doubt {
		return time.Time{}
	}
	return x.since.Add(x.grace)
}

func (x absence) over(now time.Time) bool {
	ends := x.ends()
	return !ends.IsZero() && !now.Before(ends)
}

// same tells whether an absence is the one of which this was known.
func (x absence) same(ack uint64, session string) bool {
	return x.ack == ack && x.session == session
}

// word says how a member went away.
func (x absence) word() string {
	if x.stopped {
		return protocol.EventLeft
	}
	return protocol.EventLost
}

// A grace is waited for once. An absence outlives full reads and new epochs of its leader, and
// leaders that come and go. Each leader notes in the leader state how long a member has been waited
// for, as a duration, which is never too long. A leader that finds the note goes on from there, if
// it is the same absence: no record, and the same ack with the same session, which is gone. A
// registration writes the ack, with a value that was never there.

// absences are the members that are missing, and what the last leader has noted of them.
type absences struct {
	away   map[string]absence
	handed map[string]protocol.Waited
}

func newAbsences() absences {
	return absences{map[string]absence{}, map[string]protocol.Waited{}}
}

// applied takes in an order that was carried out.
func (x absences) applied(o *order) {
	if o.kind == orderSweep {
		delete(x.away, o.from)
	}
}

// refused takes in that a write about a member was refused: it may have been back.
func (x absences) refused(member string) {
	if away, ok := x.away[member]; ok {
		away.doubt = true
		x.away[member] = away
	}
}

// AbsencePoll is how soon a member is looked at again that was not gone.
const AbsencePoll = 500 * time.Millisecond

// see finds the members that are missing. It returns those that are to be asked about, and when to
// ask about others.
func (x absences) see(now time.Time, members messages.Table[facts.Member],
	acks messages.Table[facts.Ack], assigned known) (ask []string, again time.Time) {
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
		case !have.since.IsZero() && !have.doubt && have.ack == ack.ModifyIndex:
		case now.Before(have.until):
			again = actor.Earliest(again, have.until)
		default:
			ask = append(ask, id)
		}
	}
	return ask, again
}

// failed takes in that nothing could be found out about a member: its key is none that Consul
// takes, or the token does not allow it. The rest goes on.
func (x absences) failed(id string, now time.Time) (again time.Time) {
	have := x.away[id]
	if have.asked.IsZero() {
		have.asked = now
	}
	have.until = now.Add(skipPause)
	x.away[id] = have
	return have.until
}

// found takes in what was found out about a member: now.since is zero if it is not gone. It tells
// whether the absence is new.
func (x absences) found(id string, now absence, hold time.Duration) (absence, bool) {
	have := x.away[id]
	if now.asked = have.asked; now.asked.IsZero() {
		now.asked = time.Now()
	}
	if now.since.IsZero() {
		x.away[id] = now
		return now, false
	}
	confirmed := now.since
	if !have.since.IsZero() && have.same(now.ack, now.session) {
		now.since = have.since
	}
	if w, noted := x.handed[id]; noted && now.same(w.Ack, w.Session) {
		now.since = actor.Earliest(now.since, confirmed.Add(-min(w.For, max(now.grace, hold))))
	}
	delete(x.handed, id)
	x.away[id] = now
	return now, have.since.IsZero() || !now.since.Equal(have.since)
}

// graceOf is how long a vanished member's items wait for it: for the lease that it may hold, unless
// it said that all its work has ended; and for as long as it asked for when it stopped.
func graceOf(ack protocol.Ack, set actor.Settings) time.Duration {
	if ack.Stopped && ack.Clear {
		return ack.Keep
	}
	return max(set.Grace, cmp.Or(ack.TTL, set.TTL), ack.Keep)
}

// mostNoted keeps the leader state within what Consul takes.
const mostNoted = 1000

// waited is what there is to note: of each absence the time waited so far, and of what the last
// leader has noted what this one cannot confirm itself. Least is how long each is waited for under
// the brake.
func (x absences) waited(now time.Time, least time.Duration,
	still func(id string) bool) map[string]protocol.Waited {
	all := map[string]protocol.Waited{}
	for id, away := range x.away {
		if away.since.IsZero() || away.ack == 0 || away.session == "" {
			continue // by nothing could a successor tell that it is the same absence
		}
		most := max(away.grace, least)
		d := min(now.Sub(away.since), most)
		if d >= 0 && len(all) < mostNoted {
			all[id] = protocol.Waited{Ack: away.ack, Session: away.session, For: d, Of: most}
		}
	}
	for id, w := range x.handed {
		if _, judged := all[id]; !judged && still(id) && len(all) < mostNoted {
			all[id] = w
		}
	}
	return all
}
