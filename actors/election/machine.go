package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/coordd/coordd/internal/facts"
)

// op is what the machine has the backend do, one at a time.
type op uint8

const (
	opNone op = iota
	opJoin
	opTake
	opRelease
	opHandOver // ask the leader to make way for this candidate
	opLeave
)

func (o op) String() string {
	return [...]string{"nothing", "join", "take", "release", "hand-over", "leave"}[o]
}

// refusedPause is the pause after a refused Take if no new view comes. Another leader may have
// come and gone between two views, and then no new view comes.
const refusedPause = time.Second

// A candidate that has never joined and may not is tried again for deniedFor. One that has joined
// before may have a token that is about to be renewed. What else is denied is tried again after
// deniedPause.
const (
	deniedFor   = 30 * time.Second
	deniedPause = 30 * time.Second
)

// outcome is the result of an op.
type outcome struct {
	op      op
	session string        // of opJoin
	token   uint64        // of opTake
	retry   time.Duration // of opTake
	err     error
}

// effects is what the shell has to do after a step.
type effects struct {
	start     op
	cancel    bool // the op under way
	messages  []Status
	startDuty bool // the duty, with the last of messages
	stopDuty  bool // the duty
	wake      time.Time
	finished  bool // nothing will follow
	// the host has not said that its duty has stopped, and is not waited for any longer
	overdue bool
	failure *outcome // of the first op in a row that has failed and is tried again; nil: none
}

// machine holds the rules. Observations and results of operations go in, effects come out. It has
// no goroutine, no clock and no I/O. The shell sets contact and view, reports outcomes, and calls
// step after each.
type machine struct {
	self     Candidate
	follower bool
	preempt  bool
	lead     bool // duties end by returning, not by Drained
	margin   time.Duration
	// how long a host without Lead that is gone may take to say Drained
	drainTimeout time.Duration

	contact Contact
	lease   facts.Lease // of contact, and of the one before while that has no session
	view    View
	views   uint64 // how many views there were; 0: none yet

	candidacy
	attempts
	duty
	told

	resigning bool
	// ending: the election is over for everyone; the leader stops first.
	ending, deleted bool
	over            bool
}

// candidacy is what has come of the operations so far.
type candidacy struct {
	session       string // that it joined under; empty: it did not
	ops           int    // how many calls have succeeded that a view must know of
	joinAttempted bool   // a Join was started at some time
	recordGone    bool   // it has to join again, unless its session is gone too
	left          bool
	took          bool // the last call that a view must know of was a Take
	leading       bool
	draining      bool
	token         uint64
}

// attempts is the operation under way, and when the next one may be tried.
type attempts struct {
	busy           op
	pause          *backoff.ExponentialBackOff
	retryAt        time.Time
	lastFailure    string    // why the last op failed
	deniedSince    time.Time // it may not join; zero: it may
	failure        *outcome  // to be told by the next step
	viewsAtRefusal uint64    // views at the last refused Take; 0: none
	handOverAsked  uint64    // token of the leader that was asked to make way
}

// duty is the leader's work.
type duty struct {
	dutyStarted bool // the shell was told to start the duty, and not yet to stop it
	dutyRunning bool // the duty may still be going on
	drainBy     time.Time
	dutyErr     error // what the Lead function returned by itself
}

// told is what this participant was told.
type told struct {
	reason    string // of the last change
	newest    Status // the last message so far
	final     Status // the message that ends the participation, once over
	roleKnown bool   // a role was reported
}

func newMachine(c Config, self Candidate, follower bool) *machine {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.MaxElapsedTime = 50*time.Millisecond,
		2*time.Second, 2, 0
	b.Reset() // else it begins with the library's 500 ms
	return &machine{self: self, follower: follower, preempt: c.Preempt, lead: c.Lead != nil,
		margin: c.Margin, drainTimeout: cmp.Or(c.DrainTimeout, DefaultDrainTimeout),
		attempts: attempts{pause: b}}
}

// current tells whether the view takes into account all that this candidate has done.
func (m *machine) current() bool { return m.views > 0 && m.view.Ops >= m.ops }

// marginOf returns how long before the end of the lease a leader steps down.
func (m *machine) marginOf() time.Duration {
	if m.margin > 0 {
		return m.margin
	}
	return m.contact.Lease.TTL / 10
}

// leaseHolds tells whether the session can be counted on.
func (m *machine) leaseHolds(now time.Time) bool {
	return m.contact.Session != "" && m.contact.Lease.Valid(now, m.marginOf())
}

// resign begins the end of the candidacy. drained: without a Lead function, the duties have stopped
// too.
func (m *machine) resign(drained bool) {
	m.resigning = true
	if drained {
		m.drained()
	}
}

// drained says that the host has stopped the duties. It counts only after the host was asked to
// stop, or told that it is over.
func (m *machine) drained() {
	if !m.lead && (m.draining || m.resigning || m.over) {
		m.dutyRunning = false
	}
}

// dutyEnded says that the Lead function has returned. err is errToldToStop if it was told to. A
// duty that ended by itself ends the candidacy, also if the leadership was lost before the machine
// learned of the end.
func (m *machine) dutyEnded(err error) {
	m.dutyRunning = false
	switch { // by what it is: the host's own error may say that it is like any other
	case m.over, err == errToldToStop:
	case err == errNotBegun:
		if m.leading {
			m.loseLeadership("the lease was over before the duty began")
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
			m.reason = fmt.Sprintf(
				"its record could not be removed yet (%v); the connection goes on trying", r.err)
		}
		return
	}
	if r.err != nil {
		m.failed(now, r)
		return
	}
	m.pause.Reset()
	m.retryAt, m.lastFailure = time.Time{}, ""
	switch r.op {
	case opJoin:
		m.session, m.recordGone = r.session, false
		m.ops++
		m.took = false
	case opTake:
		if r.token == 0 {
			m.viewsAtRefusal = m.views
			if r.retry <= 0 {
				r.retry = refusedPause
			}
			m.retryAt = now.Add(r.retry)
			return
		}
		m.token = r.token
		m.ops++
		m.took = true
		m.leading = m.leaseHolds(now) && m.contact.Session == m.session && !m.resigning &&
			!m.ending &&
			!m.over
	case opRelease:
		m.draining, m.token = false, 0
		m.ops++
		m.took = false
	}
}

func (m *machine) failed(now time.Time, r outcome) {
	switch {
	case errors.Is(r.err, ErrEnded):
		m.ending = true
	case errors.Is(r.err, ErrDeleted):
		m.ending, m.deleted = true, true
	case errors.Is(r.err, ErrInvalid), errors.Is(r.err, ErrBroken):
		m.finish(Status{Err: r.err})
	case r.op == opHandOver && (errors.Is(r.err, ErrNoLeader) || errors.Is(r.err, ErrNoCandidate)):
		// The view will tell.
	case r.op == opTake && errors.Is(r.err, ErrNoCandidate):
		m.recordGone = true
	case r.op == opJoin && m.ops == 0 && errors.Is(r.err, ErrDenied) && !m.deniedSince.IsZero() &&
		now.Sub(m.deniedSince) >= deniedFor:
		m.finish(Status{Err: r.err})
	default:
		denied := errors.Is(r.err, ErrDenied)
		switch {
		case r.op == opHandOver:
			m.handOverAsked = 0
		case r.op == opJoin && denied && m.deniedSince.IsZero():
			m.deniedSince = now
		case r.op == opJoin && !denied:
			m.deniedSince = time.Time{}
		}
		if m.lastFailure == "" && r.op != opJoin && !errors.Is(r.err, context.Canceled) {
			m.failure = &r // that of a Join is told as a status
		}
		wait := m.pause.NextBackOff()
		if denied && r.op != opJoin {
			wait = deniedPause
		}
		m.retryAt, m.viewsAtRefusal, m.lastFailure = now.Add(wait), 0, r.err.Error()
	}
}

// finish ends the participation with s as the last message.
func (m *machine) finish(s Status) {
	if m.over {
		return
	}
	held := m.leading || m.draining
	m.over, m.leading, m.draining = true, false, false
	if !m.lead {
		// The host has not said that it has stopped, and only now hears that it must. Unless the
		// record went with its session, it stays until the lease is over.
		m.dutyRunning = m.dutyRunning && held &&
			(m.contact.Closed || m.contact.Session == m.session)
		m.drainBy = m.lease.Start.Add(m.lease.TTL)
	}
	s.What, s.Role, s.Self = Over, Out, m.self
	if s.Reason == "" {
		s.Reason = m.reason
	}
	m.final = s
}

// loseLeadership ends a leadership that is over already.
func (m *machine) loseLeadership(format string, args ...any) {
	m.leading, m.draining, m.token = false, false, 0
	if !m.lead {
		m.dutyRunning = false
	}
	m.reason = fmt.Sprintf(format, args...)
}

// step decides what to do now.
func (m *machine) step(now time.Time) effects {
	e := effects{failure: m.failure}
	m.failure = nil
	if m.contact.Session != "" {
		m.lease = m.contact.Lease
	}
	if m.newest.What == Over {
		return m.cleanUp(now, e)
	}
	m.checkEnd()
	if !m.over {
		m.checkLeadership(now)
	}
	e.overdue = m.checkDrained(now)
	if m.leading && !m.dutyStarted {
		m.dutyStarted, m.dutyRunning, e.startDuty = true, true, true
	}
	if !m.leading && m.dutyStarted {
		m.dutyStarted, e.stopDuty = false, true
	}
	// A canceled operation may still take effect, even after Leave. So all others are waited for.
	// A hand-over is tried without a limit. It is canceled when the candidate leaves, and when its
	// turn has come.
	e.cancel = m.over && m.busy != opNone && m.busy != opLeave ||
		m.busy == opHandOver && (m.resigning ||
			m.ending || m.view.Turn)
	if !m.over {
		if e.start = m.next(now); e.start != opNone {
			m.busy = e.start
		}
	}
	if s, ok := m.status(now); ok {
		m.newest = s
		e.messages = append(e.messages, s)
	}
	e.wake = m.wake(now)
	return m.cleanUp(now, e)
}

// checkEnd finds what ends the participation.
func (m *machine) checkEnd() {
	switch {
	case m.contact.Closed:
		err := ErrClosed
		if m.contact.Broken != nil {
			err = fmt.Errorf("%w: %w", ErrClosed, m.contact.Broken)
		}
		m.finish(Status{Err: err})
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
	if m.reason = m.view.Why; m.reason == "" {
		m.reason = "the election was ended"
		if m.deleted {
			m.reason = "the election was deleted"
		}
	}
	if m.leading || m.draining {
		if m.view.Mine || !m.current() {
			return // it stops its duties first, and then leaves
		}
		m.loseLeadership("%s", m.reason)
	}
	if m.busy != opTake && (!m.dutyRunning || !m.view.Mine) {
		m.finish(Status{Ended: !m.deleted, Deleted: m.deleted})
	}
}

// checkLeadership finds out whether this candidate still leads, and whether it may go on.
func (m *machine) checkLeadership(now time.Time) {
	if !m.leading && !m.draining || m.busy == opRelease || m.busy == opLeave || m.left {
		return // a leadership that is given up cannot be lost
	}
	switch {
	case !m.leaseHolds(now):
		m.loseLeadership("%s", m.leaseOver())
	case m.current() && m.view.Err == nil && !m.view.Mine:
		switch {
		case m.view.Why != "":
			m.loseLeadership("%s", m.view.Why)
		case m.view.Leader.ID != "":
			m.loseLeadership("%s has the leader's record", m.view.Leader.Name)
		default:
			m.loseLeadership("the leader's record is gone")
		}
	case m.current() && m.view.Mine && m.view.Token != 0 && m.view.Token != m.token:
		m.loseLeadership("the leader's record is another one")
	case m.leading && m.resigning, m.leading && m.ending:
		m.leading, m.draining = false, true
	case m.leading && m.view.Yield != "" && m.view.Yield != m.self.ID:
		m.leading, m.draining = false, true
		m.reason = "another is to lead"
	}
}

// checkDrained tells whether the host has had all the time that it may take to stop its duties.
func (m *machine) checkDrained(now time.Time) (overdue bool) {
	switch {
	case m.lead, !m.resigning, !m.draining, !m.dutyRunning:
		return false
	case m.drainBy.IsZero():
		m.drainBy = now.Add(m.drainTimeout)
	}
	if now.Before(m.drainBy) {
		return false
	}
	m.drained()
	return true
}

// next chooses the next operation.
func (m *machine) next(now time.Time) op {
	if m.busy != opNone {
		return opNone
	}
	if m.resigning || m.ending {
		switch {
		case m.dutyRunning:
			return opNone
		case m.left, !m.joinAttempted:
			m.finishInOrder()
			return opNone
		}
		return opLeave
	}
	if m.follower ||
		now.Before(m.retryAt) && !(m.views > m.viewsAtRefusal && m.viewsAtRefusal > 0) {
		return opNone
	}
	if m.session == "" && m.contact.Session == "" { // Join makes the connection open one
		m.joinAttempted = true
		return opJoin
	}
	if !m.leaseHolds(now) {
		return opNone
	}
	if m.session == "" || m.recordGone && !m.dutyRunning {
		m.joinAttempted = true
		return opJoin
	}
	return m.campaign()
}

// campaign chooses the next operation of a candidate whose lease holds.
func (m *machine) campaign() op {
	switch {
	case m.draining && !m.dutyRunning:
		return opRelease
	case m.leading, m.draining, m.dutyRunning, !m.current() && !m.took:
		return opNone
	case !m.current():
		// It has won, and its lease was over before a view said so. If none ever does, because the
		// store denies it all, only the next Take tells the backend.
		return opTake
	case m.view.Mine && m.view.Yield != "" && m.view.Yield != m.self.ID:
		return opRelease
	case m.view.Mine, m.view.Turn:
		m.viewsAtRefusal = 0
		return opTake
	case m.preempt && m.view.Yield == "" && m.view.Leader.ID != "" &&
		m.view.Leader.Priority < m.self.Priority && m.handOverAsked != m.view.Token:
		m.handOverAsked = m.view.Token
		return opHandOver
	}
	return opNone
}

// finishInOrder makes the last message of a participation that has ended without a loss.
func (m *machine) finishInOrder() {
	switch {
	case m.ending:
		m.finish(Status{Ended: !m.deleted, Deleted: m.deleted})
	case m.dutyErr != nil:
		m.finish(Status{Err: m.dutyErr})
	default:
		m.finish(Status{Resigned: true})
	}
}

// wake returns when to step again though nothing happens. The lease is checked once a second, by
// both clocks, because a timer stands still while the host is suspended.
func (m *machine) wake(now time.Time) time.Time {
	var at time.Time
	if left := m.contact.Lease.Left(now) - m.marginOf(); m.session != "" && left > 0 {
		at = now.Add(min(left, time.Second))
	}
	if m.retryAt.After(now) && (at.IsZero() || m.retryAt.Before(at)) {
		at = m.retryAt
	}
	if m.drainBy.After(now) && (at.IsZero() || m.drainBy.Before(at)) {
		at = m.drainBy
	}
	return at
}

// cleanUp goes on after the last message: the duty ends, then the records are removed.
func (m *machine) cleanUp(now time.Time, e effects) effects {
	if !m.lead && m.over && m.dutyRunning {
		m.dutyRunning, e.wake = now.Before(m.drainBy), m.drainBy
	}
	if !m.over || m.dutyRunning {
		return e
	}
	switch {
	case m.busy != opNone || e.start != opNone:
	case m.joinAttempted && !m.left:
		e.start, m.busy = opLeave, opLeave
	default:
		e.finished = true
	}
	return e
}
