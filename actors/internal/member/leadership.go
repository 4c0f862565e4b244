package member

import (
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
)

// leaderOp is what the leader-tracker asks of Consul for its machine, one at a time.
type leaderOp uint8

const (
	opNone   leaderOp = iota
	opTake            // take the leader key, and write the term
	opRaise           // take a new epoch within the term
	opVerify          // read the key: the watch is slow, or Consul has gone back
	opClear           // write into the term that no earlier leader has a lease
	opResign          // delete the key: nothing of the term runs any more
)

// leaderInputs is what the leader-tracker knows at one moment.
type leaderInputs struct {
	now     time.Time
	session string
	lease   bool      // the lease holds, with the margin that stopping takes
	look    time.Time // when to look at the lease again
	member  bool      // this member is registered under the session
	leaving bool      // it is on its way out
	key     LeaderKey
	terms   TermsRun
	// The following are about the term of this member's leadership.
	drained bool   // an operator drains this member
	other   bool   // another member may lead that is not drained
	unfit   string // the rights that the assigner lacks; empty: none
}

// leadership holds the rules by which a member campaigns, leads and hands over. Inputs and the
// results of operations go in; the next operation and what to publish come out. It has no
// goroutine, no clock and no I/O.
type leadership struct {
	is  facts.Leadership // to publish
	why string           // of its last change
	// dutyEnds is the term whose duty is to end, because the leadership is handed over; 0: none.
	dutyEnds uint64

	sent     uint64    // the view of the key when the last lock was sent
	behind   uint64    // the view that is older than the epoch
	behindAt time.Time // when that came
	refused  time.Time // since when every take is refused; zero: the last one was not
	// taking is the leadership that was taken last, if it is not known whether that was carried out.
	// Its role is Leading then.
	taking facts.Leadership

	handing   facts.Leadership // is being handed over; its role is Leading then
	handedAt  time.Time        // when a hand-over began last
	rest      time.Duration    // how long the leadership is then left to others
	restUntil time.Time
}

const (
	// behindLimit is how long a view of the leader key may be older than the epoch: a lagging server
	// catches up. Then the key is read, for Consul may have been restored from a snapshot and have
	// forgotten assignments of this leader with the epoch.
	behindLimit = 2 * time.Second
	// drainedRest is how long a drained member leaves the leadership to others after it has handed
	// it over. Where several members are drained it passes on within that time to one that is not.
	// One that took it again sooner would keep it, for the sake of handOverPause.
	drainedRest = 15 * time.Second
	// unfitRest is the same for a member whose token lacks rights that leading takes.
	unfitRest = time.Minute
	// handOverPause is how soon a drained member hands its leadership over again. Nobody else may
	// have been able to take it, and a leadership that goes round serves nobody.
	handOverPause = 10 * time.Minute
)

// step decides. It returns what to do next, and when to look again at the latest.
func (m *leadership) step(in leaderInputs) (leaderOp, time.Time) {
	if m.handing.Role == facts.Leading {
		return m.endHandOver(in)
	}
	leads := m.is.Role == facts.Leading
	if !in.lease || leads && m.is.Session != in.session {
		// Without a lease it is not even known that nobody else leads by now.
		m.become(facts.Leadership{Role: facts.Uncertain}, "the lease is over")
		return opNone, time.Time{}
	}
	if leads {
		if op, wake, held := m.lead(in); held {
			return op, wake
		}
		m.become(facts.Leadership{Role: facts.Vacant}, "the leader key was deleted or taken")
	}
	switch k := in.key; {
	case !k.Known:
	case k.Found && k.Entry.Session != "" && k.Entry.Session != in.session:
		m.refused = time.Time{}
		m.become(facts.Leadership{Role: facts.Following, Leader: k.Leader,
			Session: k.Entry.Session}, "")
	case !in.member, in.leaving && k.Entry.Session != in.session:
		// A member whose id may be another's does not campaign, nor one that is about to resign.
		// While this session has the key nobody else can.
		m.become(facts.Leadership{Role: facts.Vacant}, "")
	case in.now.Before(m.restUntil):
		m.become(facts.Leadership{Role: facts.Vacant}, "")
		return opNone, m.restUntil
	default:
		return opTake, time.Time{}
	}
	return opNone, time.Time{}
}

// lead decides while this member leads. held: it still does.
func (m *leadership) lead(in leaderInputs) (op leaderOp, wake time.Time, held bool) {
	k, l := in.key, m.is
	caughtUp := k.Known && k.View > m.sent // with the lock
	if caughtUp && k.Index >= l.Epoch && !(k.Found && k.Entry.Session == in.session) {
		return opNone, time.Time{}, false
	}
	if m.makeWay(in) {
		return opNone, in.now, true
	}
	switch {
	case !caughtUp:
	case k.Index < l.Epoch:
		if m.behind != k.View {
			m.behind, m.behindAt = k.View, in.now
		}
		if in.now.Sub(m.behindAt) >= behindLimit {
			return opVerify, in.look, true
		}
	case k.Entry.ModifyIndex != l.Epoch: // somebody has written the key
		return opRaise, in.look, true
	case m.dutyEnds != 0, l.ClearAt.IsZero():
	case in.now.Before(l.ClearAt):
		return opNone, actor.Earliest(in.look, l.ClearAt), true
	default:
		return opClear, in.look, true
	}
	return opNone, in.look, true
}

// makeWay has the duty end where the leadership is to be handed over, and begins the hand-over when
// it has ended: from then on this member does not lead, but for the key.
func (m *leadership) makeWay(in leaderInputs) (begins bool) {
	why, rest := "", drainedRest
	switch {
	case in.terms.Term != m.is.Term: // the term-runner has yet to begin
	case !m.handedAt.IsZero() && in.now.Sub(m.handedAt) < handOverPause && in.unfit == "":
	case in.unfit != "":
		why, rest = "the token lacks rights that leading takes: "+in.unfit, unfitRest
	case in.drained && in.other:
		why = "an operator drains this member"
	}
	switch {
	case why == "":
		m.dutyEnds = 0 // an order may have been taken back
	case m.dutyEnds != m.is.Term:
		m.dutyEnds, m.why = m.is.Term, why
	case in.terms.DutyOver:
		m.handing, m.handedAt, m.rest = m.is, in.now, rest
		m.become(facts.Leadership{Role: facts.Vacant}, why)
		return true
	}
	return false
}

// endHandOver gives the key up once nothing of the term runs. Without the lease there is nothing to
// give up.
func (m *leadership) endHandOver(in leaderInputs) (leaderOp, time.Time) {
	l := m.handing
	switch {
	case in.session != l.Session || !in.lease:
		m.handing = facts.Leadership{}
		return opNone, in.now
	case in.terms.Term == l.Term || in.terms.Busy:
		return opNone, in.now.Add(time.Second) // the lease may end before
	}
	return opResign, in.now
}

// handedOver takes in what came of giving the key up. Where it is denied, this member leads on.
func (m *leadership) handedOver(now time.Time, denied bool) {
	if m.handing = (facts.Leadership{}); !denied {
		m.restUntil = now.Add(m.rest)
	}
}

// took takes in that the leadership was taken.
func (m *leadership) took(l facts.Leadership) {
	m.refused, m.taking = time.Time{}, facts.Leadership{}
	m.become(l, "")
}

// refuse takes in that another was quicker, or that a lock-delay runs. Consul wakes no watch at its
// end, so the candidate asks again by the clock.
func (m *leadership) refuse(now time.Time, lockDelay time.Duration) (again time.Time) {
	m.become(facts.Leadership{Role: facts.Vacant}, "")
	if m.refused.IsZero() {
		m.refused = now
	}
	return now.Add(LockPoll(lockDelay, now.Sub(m.refused)))
}

// raised takes in the new epoch; 0: the key was lost.
func (m *leadership) raised(epoch uint64) {
	if epoch == 0 {
		m.become(facts.Leadership{Role: facts.Vacant}, "the leader key was lost")
		return
	}
	l := m.is
	l.Epoch = epoch
	m.become(l, "")
}

// held is what the session may hold of the leadership when the member stops.
func (m *leadership) held(session string) facts.Leadership {
	switch {
	case m.handing.Role == facts.Leading:
		return m.handing
	case m.is.Role != facts.Leading && m.taking.Session == session:
		return m.taking
	}
	return m.is
}

func (m *leadership) become(l facts.Leadership, why string) {
	if l != m.is {
		m.is, m.why = l, why
	}
	if l.Role != facts.Leading {
		m.dutyEnds = 0
	}
}

// cleared tells whether the host's duty may begin.
func cleared(l facts.Leadership) bool {
	return l.ClearAt.IsZero() || !time.Now().Before(l.ClearAt)
}

// waitLeft is for how long yet a leader before this one may count on its lease.
func waitLeft(l facts.Leadership) time.Duration {
	if l.ClearAt.IsZero() {
		return 0
	}
	return max(0, time.Until(l.ClearAt))
}

// LeaderKey is what the watch of the leader key says.
type LeaderKey struct {
	Known  bool
	Found  bool
	Entry  store.Entry
	Leader string // who it says leads
	Index  uint64
	// View counts the answers. The index of a Consul that came back empty begins anew: then only
	// View tells an answer from before a lock from one after it.
	View uint64
}
