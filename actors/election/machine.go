package election

import (
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/coordd/coordd/internal/mutations"
)

// op is what the machine has the backend do, one at a time.
type op uint8

const (
	opNone op = iota
	opJoin
	opTake
	opRelease
	opAsk // to make way for this candidate
	opLeave
)

// refusedPause is how long after a Take that was refused the next one comes when no view says more:
// whoever was in the way may have come and gone between two views, and then there is no new one.
const refusedPause = time.Second

// outcome is what became of an op.
type outcome struct {
	op      op
	session string        // of opJoin
	token   uint64        // of opTake
	retry   time.Duration // of opTake
	err     error
}

// effects is what the shell has to do after a step.
type effects struct {
	start    op
	cancel   bool // the op under way
	messages []Status
	begin    bool // the duty, with the last of messages
	end      bool // the duty
	wake     time.Time
	finished bool // nothing will follow
}

// machine is the rules: what is seen and what came of what was done go in, effects come out. It has
// no goroutine, no clock and no I/O. The shell sets contact and view, reports outcomes, and calls
// step after each.
type machine struct {
	self     Candidate
	follower bool
	preempt  bool
	lead     bool // duties end by returning, not by Drained
	margin   time.Duration

	contact Contact
	view    View
	views   uint64 // how many there were; 0: nothing was seen yet

	session  string // that it joined under; empty: it did not
	ops      int    // how many calls have succeeded that a view must know of
	attempts bool   // a Join was started at some time
	left     bool
	busy     op
	pause    *backoff.ExponentialBackOff
	retryAt  time.Time
	trouble  string // why the last op failed
	tried    uint64 // views when the last Take was refused
	asked    uint64 // token of the leader that was asked to make way

	leading  bool
	draining bool
	token    uint64
	begun    bool // the shell was told to begin the duty, and not yet to end it
	duty     bool // may still be going on

	resigning bool
	dutyErr   error // what the Lead function returned by itself
	// ending: the election is over for everyone; the leader stops first.
	ending, deleted bool
	over            bool

	why  string // of what changed
	last Status // that was told
	end  Status // the last one, when over
	told bool   // a role
}

func newMachine(c Config, self Candidate, follower bool) *machine {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.MaxElapsedTime = 50*time.Millisecond,
		2*time.Second, 2, 0
	return &machine{self: self, follower: follower, preempt: c.Preempt, lead: c.Lead != nil,
		margin: c.Margin, pause: b}
}

// current tells whether the view is not older than what this candidate did itself.
func (m *machine) current() bool { return m.views > 0 && m.view.Ops >= m.ops }

// marginOf is how long before the end of the lease a leader steps down.
func (m *machine) marginOf() time.Duration {
	if mutations.Broken("no-margin") {
		return 0
	}
	if m.margin > 0 {
		return m.margin
	}
	return m.contact.Lease.TTL / 10
}

// holds tells whether the session can be counted on.
func (m *machine) holds(now time.Time) bool {
	return m.contact.Session != "" && m.contact.Lease.Valid(now, m.marginOf())
}

// resign begins the end of the candidacy. Without a Lead function it says that the duties have
// ended, too.
func (m *machine) resign(drained bool) {
	m.resigning = true
	if drained {
		m.drained()
	}
}

// drained: whoever reads the messages has stopped the duties. While it leads nobody has asked for
// that.
func (m *machine) drained() {
	if !m.lead && (m.draining || m.resigning) {
		m.duty = false
	}
}

// dutyEnded: the Lead function has returned; errTold when it was told to. A duty that has ended by
// itself is over for this candidate, also when the leadership was lost before that was heard of.
func (m *machine) dutyEnded(err error) {
	m.duty = false
	switch {
	case m.over, errors.Is(err, errTold):
	case errors.Is(err, errNotBegun):
		if m.leading {
			m.lose("the lease was over before the duty began")
		}
	default:
		m.resigning, m.dutyErr = true, err
	}
}

// done takes the outcome of the op under way.
func (m *machine) done(now time.Time, r outcome) {
	m.busy = opNone
	if r.op == opLeave {
		m.left = true
		if r.err != nil {
			m.why = fmt.Sprintf(
				"its record could not be removed yet (%v); the connection goes on trying", r.err)
		}
		return
	}
	if r.err != nil {
		m.failed(now, r)
		return
	}
	m.pause.Reset()
	m.retryAt, m.trouble = time.Time{}, ""
	switch r.op {
	case opJoin:
		m.session = r.session
		m.ops++
	case opTake:
		if r.token == 0 {
			m.tried = m.views
			if r.retry <= 0 {
				r.retry = refusedPause
			}
			m.retryAt = now.Add(r.retry)
			return
		}
		m.token = r.token
		m.ops++
		m.leading = m.holds(now) && m.contact.Session == m.session && !m.resigning && !m.ending &&
			!m.over
	case opRelease:
		m.draining, m.token = false, 0
		m.ops++
	}
}

func (m *machine) failed(now time.Time, r outcome) {
	switch {
	case errors.Is(r.err, ErrEnded):
		m.ending = true
	case errors.Is(r.err, ErrDeleted):
		m.ending, m.deleted = true, true
	case errors.Is(r.err, ErrInvalid), errors.Is(r.err, ErrSessionLost) && m.session != "":
		m.finish(Status{Err: r.err})
	case r.op == opAsk && (errors.Is(r.err, ErrNoLeader) || errors.Is(r.err, ErrNoCandidate)):
		// The view will tell.
	default:
		if r.op == opAsk {
			m.asked = 0
		}
		m.retryAt, m.tried, m.trouble = now.Add(m.pause.NextBackOff()), 0, r.err.Error()
	}
}

// finish ends the participation with s as the last message.
func (m *machine) finish(s Status) {
	if m.over {
		return
	}
	m.over, m.leading, m.draining = true, false, false
	if !m.lead {
		m.duty = false
	}
	s.What, s.Role, s.Self = Over, Out, m.self
	if s.Reason == "" {
		s.Reason = m.why
	}
	m.end = s
}

// lose ends a leadership that is over already.
func (m *machine) lose(format string, args ...any) {
	m.leading, m.draining, m.token = false, false, 0
	if !m.lead {
		m.duty = false
	}
	m.why = fmt.Sprintf(format, args...)
}

// step brings everything up to date.
func (m *machine) step(now time.Time) effects {
	e := effects{}
	if m.last.What == Over {
		return m.tail(e)
	}
	m.endings()
	if !m.over {
		m.leadership(now)
	}
	if m.leading && !m.begun {
		m.begun, m.duty, e.begin = true, true, true
	}
	if !m.leading && m.begun {
		m.begun, e.end = false, true
	}
	// Otherwise it is waited for: what was given up half done may still be done, after Leave. To
	// ask for the leadership is tried for as long as it takes: whoever leaves does not want it any
	// more, and whose turn it is takes it.
	e.cancel = m.over && m.busy != opNone && m.busy != opLeave || m.busy == opAsk && (m.resigning ||
		m.ending || m.view.Turn)
	if !m.over {
		if e.start = m.next(now); e.start != opNone {
			m.busy = e.start
		}
	}
	if s, ok := m.status(now); ok {
		m.last = s
		e.messages = append(e.messages, s)
	}
	e.wake = m.wake(now)
	return m.tail(e)
}

// endings finds what ends the participation.
func (m *machine) endings() {
	switch {
	case m.contact.Closed:
		m.finish(Status{Err: ErrClosed})
		return
	case m.session != "" && m.contact.Session != m.session:
		why := m.contact.Why
		if why == "" {
			why = "the store no longer knows it"
		}
		m.finish(Status{Err: fmt.Errorf("%w: %s", ErrSessionLost, why), Reason: why})
		return
	case m.views > 0 && errors.Is(m.view.Err, ErrInvalid):
		m.finish(Status{Err: m.view.Err})
		return
	case m.contact.Lease.TTL > 0 && m.margin >= m.contact.Lease.TTL/2:
		m.finish(Status{Err: invalid("Margin",
			"it is %v and the lease is %v, as the store grants it; give less than half of that",
			m.margin, m.contact.Lease.TTL)})
		return
	case m.views > 0 && (m.view.Ended || m.view.Deleted):
		m.ending, m.deleted = true, m.deleted || m.view.Deleted
	}
	if !m.ending {
		return
	}
	if m.why = m.view.Why; m.why == "" {
		m.why = "the election was ended"
		if m.deleted {
			m.why = "the election was deleted"
		}
	}
	if m.leading || m.draining {
		if m.view.Mine || !m.current() {
			return // it stops first, and then leaves
		}
		m.lose("%s", m.why)
	}
	if m.busy != opTake && (!m.duty || !m.view.Mine) {
		m.finish(Status{Ended: !m.deleted, Deleted: m.deleted})
	}
}

// leadership finds out whether this candidate still leads, and may go on.
func (m *machine) leadership(now time.Time) {
	if !m.leading && !m.draining || m.busy == opRelease || m.busy == opLeave {
		return // in the latter cases nothing is left to be lost
	}
	switch {
	case !m.holds(now) && !mutations.Broken("no-lease"):
		m.lose("the lease has run out: the store was last heard of at %s",
			m.contact.Lease.Start.Format("15:04:05.000"))
	case m.current() && m.view.Err == nil && !m.view.Mine:
		switch {
		case m.view.Why != "":
			m.lose("%s", m.view.Why)
		case m.view.Leader.ID != "":
			m.lose("%s has the leader's record", m.view.Leader.Name)
		default:
			m.lose("the leader's record is gone")
		}
	case m.current() && m.view.Mine && m.view.Token != 0 && m.view.Token != m.token:
		m.lose("the leader's record is another one")
	case m.leading && m.resigning, m.leading && m.ending:
		m.leading, m.draining = false, true
	case m.leading && m.view.Yield != "" && m.view.Yield != m.self.ID:
		m.leading, m.draining = false, true
		m.why = "another is to lead"
	}
}

// next chooses what to do next.
func (m *machine) next(now time.Time) op {
	if m.busy != opNone {
		return opNone
	}
	if m.resigning || m.ending {
		switch {
		case m.duty && !mutations.Broken("leave-before-stop"):
			return opNone
		case m.left, !m.attempts:
			m.ended()
			return opNone
		}
		return opLeave
	}
	if m.follower || now.Before(m.retryAt) && !(m.views > m.tried && m.tried > 0) {
		return opNone
	}
	if m.session == "" && m.contact.Session == "" { // Join makes the connection open one
		m.attempts = true
		return opJoin
	}
	if !m.holds(now) {
		return opNone
	}
	switch {
	case m.session == "":
		m.attempts = true
		return opJoin
	case m.draining && (!m.duty || mutations.Broken("release-before-stop")):
		return opRelease
	case m.leading, m.draining, m.duty, !m.current():
		return opNone
	case m.view.Mine && m.view.Yield != "" && m.view.Yield != m.self.ID:
		return opRelease
	case m.view.Mine, m.view.Turn:
		m.tried = 0
		return opTake
	case m.preempt && m.view.Yield == "" && m.view.Leader.ID != "" &&
		m.view.Leader.Priority < m.self.Priority && m.asked != m.view.Token:
		m.asked = m.view.Token
		return opAsk
	}
	return opNone
}

// ended makes the last message of a participation that came to its end in good order.
func (m *machine) ended() {
	switch {
	case m.ending:
		m.finish(Status{Ended: !m.deleted, Deleted: m.deleted})
	case m.dutyErr != nil:
		m.finish(Status{Err: m.dutyErr})
	default:
		m.finish(Status{Resigned: true})
	}
}

// role is what this participant is at the moment.
func (m *machine) role(now time.Time) Role {
	switch {
	case m.over:
		return Out
	case m.follower && m.views > 0 && m.view.Err == nil:
		return Observing
	case m.leading:
		return Leading
	case m.draining:
		return Draining
	case m.session == "", !m.holds(now), !m.told && !m.current():
		return Uncertain
	case m.busy == opTake && (!m.told || m.view.Mine && m.last.Role == Uncertain):
		return Uncertain // the answer will tell
	}
	return Following
}

// status is the newest status, and whether it says anything new.
func (m *machine) status(now time.Time) (Status, bool) {
	was := m.last
	if m.over {
		return m.end, true
	}
	s := Status{Role: m.role(now), Self: m.self, Reason: m.why}
	switch {
	case s.Role == Leading, s.Role == Draining:
		s.Leader, s.Token, s.Session = m.self, m.token, m.session
		s.Until = m.contact.Lease.Start.Add(m.contact.Lease.TTL - m.marginOf())
	case s.Role == Uncertain, m.view.Mine, m.view.Err != nil:
		// Its own record, which it does not lead by, is nobody's leadership.
	default:
		s.Leader, s.Token = m.view.Leader, m.view.Token
	}
	switch {
	case !m.told && s.Role == Uncertain:
		if s.Reason = m.trouble; s.Reason == "" && m.view.Err != nil {
			s.Reason = m.view.Err.Error() // of a follower, who does nothing that could fail
		}
		if s.What = Waiting; s.Reason == "" || was.Reason != "" {
			return s, false // an outage is told once
		}
		return s, true
	case !m.told:
		s.What, m.told = Initial, true
	case s.Role != was.Role:
		s.What = RoleChanged
	case s.Leader.ID == "" && was.Leader.ID != "":
		s.What = NoLeader
	case s.Leader.ID != was.Leader.ID, s.Token != was.Token:
		s.What = NewLeader
	case s.Until.After(was.Until):
		s.What = Extended
	default:
		return s, false
	}
	m.why = ""
	return s, true
}

// wake is when to step again though nothing happens. The lease is looked at once a second, by both
// clocks, because a timer stands still while the host is suspended.
func (m *machine) wake(now time.Time) time.Time {
	var at time.Time
	if left := m.contact.Lease.Left(now) - m.marginOf(); m.session != "" && left > 0 {
		at = now.Add(min(left, time.Second))
	}
	if m.retryAt.After(now) && (at.IsZero() || m.retryAt.Before(at)) {
		at = m.retryAt
	}
	return at
}

// tail is how it goes on after the last message: the duty ends, the records are removed.
func (m *machine) tail(e effects) effects {
	if !m.over || m.duty {
		return e
	}
	switch {
	case m.busy != opNone || e.start != opNone:
	case m.attempts && !m.left:
		e.start, m.busy = opLeave, opLeave
	default:
		e.finished = true
	}
	return e
}
