package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// ended decides what follows on the end of a run.
func (l *loop) ended(r *run) {
	c, e, err, now := r.c, r.end, r.end.err, time.Now()
	// A child that ended before it was asked has not stopped, whatever was asked of it meanwhile.
	asked := c.state == StateStopping && !e.byItself
	if e.kind == KindNil && !asked && c.def.Restart == Permanent {
		err = ErrReturned
	}
	c.lingers = r.sub != nil && len(r.sub.left) > 0
	l.alive--
	l.deadlines.clear(c)
	if e.kind == KindPanic {
		l.count(c, addPanic)
	}
	cause := End{Path: c.path, Incarnation: r.incarnation, When: now, Kind: e.kind, Err: err}
	if asked {
		l.publish(Step{Type: StepStopped, Kind: e.kind, Err: err}, c)
		l.noteBadStop(c, cause)
	} else {
		c.keep(cause)
		l.publish(Step{Type: StepEnded, Kind: e.kind, Err: err}, c)
	}
	// A tree that was asked to stop may hold a child whose turn to stop had not come.
	fatal := e.escalates && (!asked || r.sub != nil)
	failed := e.kind != KindNil
	switch {
	case c.remove:
		l.logFailure(failed && !asked, cause, "restart", "none, it is removed")
		l.drop(c)
	case l.stopping:
		l.logFailure(failed && !asked, cause, "restart", "none, the supervisor is stopping")
		l.setState(c, StateStopped, now)
	case fatal:
		l.setState(c, StateFailed, now)
	case asked && c.def.Restart != Temporary:
		l.setState(c, StateWaiting, now) // it is started again with its group
	case asked && c.dynamic:
		l.drop(c)
	case asked:
		l.setState(c, StateStopped, now)
	case c.def.restarts(failed) && l.sweeping && c.pos >= l.from:
		// Its turn to stop had not come. The group is started again anyhow.
		l.logFailure(true, cause, "restart", "with its group")
		l.setState(c, StateWaiting, now)
	case c.def.restarts(failed):
		l.fail(r, cause)
	default:
		l.retire(c, cause)
	}
	if fatal {
		l.giveUp(childAsked, true, append(l.failuresOf(c).causes(), cause))
	}
}

// noteBadStop keeps what a child did on its way out. Its context was done: it has stopped, whatever
// it returned. A panic leaves its trace.
func (l *loop) noteBadStop(c *child, cause End) {
	if cause.Kind == KindPanic || cause.Kind == KindGoexit {
		c.keep(cause)
		l.log.Warn("child-failed-while-stopping", cause.attrs()...)
	}
}

// keep replaces the last cause.
func (c *child) keep(cause End) {
	f := c.faults()
	if f.last == nil {
		f.last = new(End)
	}
	*f.last = cause
}

// lastCause is what is known of why the child does not run.
func (c *child) lastCause() End {
	if c.record != nil && c.record.last != nil {
		return *c.record.last
	}
	return End{Path: c.path, Incarnation: c.incarnation, When: time.Unix(0, c.since),
		Kind: KindNil}
}

// retire is for a child that is not restarted.
func (l *loop) retire(c *child, cause End) {
	failed := cause.Kind != KindNil
	l.logFailure(failed, cause, "restart", "none")
	switch {
	case c.dynamic:
		l.drop(c)
	case failed:
		l.setState(c, StateFailed, cause.When)
	default:
		l.setState(c, StateDone, cause.When)
	}
}

// failuresOf counts those of the child, or of the group that is restarted with it.
func (l *loop) failuresOf(c *child) *failures {
	if l.tree.Strategy == OneForOne {
		return &c.faults().failures
	}
	return &l.group.failures
}

// fail restarts a child after its backoff, with those that its strategy names, unless there were
// too many restarts.
func (l *loop) fail(r *run, cause End) {
	c, ran := r.c, time.Duration(l.at(cause.When)-r.started)
	f, counted := l.failuresOf(c), ran
	if whole := l.group.whole; l.tree.Strategy != OneForOne && !whole.IsZero() {
		counted = cause.When.Sub(whole)
	}
	if !l.group.rebuilds { // else this restart of the group has been counted
		limit := l.tree.maxRestarts()
		n := f.add(cause, counted, l.tree.period(), max(limit+1, maxCauses))
		if limit >= 0 && n > limit {
			l.setState(c, StateFailed, cause.When)
			l.giveUp(fmt.Sprintf("more than %d restarts within %v", limit, l.tree.period()), false,
				f.causes())
			return
		}
	}
	wait := c.delay(ran)
	if wait < 0 {
		l.setState(c, StateFailed, cause.When)
		causes := f.causes()
		if l.group.rebuilds { // it was not counted
			causes = append(causes, cause)
		}
		l.giveUp("its backoff policy gave up", false, causes)
		return
	}
	c.record.restarts++
	l.count(c, addRestart)
	l.setState(c, StateBackoff, cause.When)
	l.deadlines.set(c, cause.When.Add(wait))
	l.publish(Step{Type: StepRestarting, After: wait, Kind: cause.Kind, Err: cause.Err}, c)
	l.logFailure(true, cause, "restart_in", wait)
	if l.tree.Strategy == OneForOne {
		return
	}
	l.group.rebuilds, l.group.whole = true, time.Time{}
	from := uint64(0)
	if l.tree.Strategy == RestForOne {
		from = c.pos
	}
	l.beginSweep(from, ErrRestarted)
}

func (l *loop) logFailure(failed bool, cause End, more ...any) {
	if failed && l.log.Enabled(context.Background(), slog.LevelWarn) {
		l.log.Warn("child-failed", append(cause.attrs(), more...)...)
	}
}

// giveUp stops everything. The error goes to the parent when that is done. An Escalate that comes
// by then goes before another reason: the parent must not start the tree again.
func (l *loop) giveUp(reason string, fatal bool, causes []End) {
	first := l.escalated == nil
	if !first && (l.fatal || !fatal) {
		return
	}
	l.escalated = &EscalationError{Path: l.path, Reason: reason, Causes: causes}
	l.fatal = fatal
	if !first {
		return // it has been told, and counted
	}
	l.hub.tally.count(l.path, l.under, addEscalation)
	l.hub.publish(Step{Type: StepEscalated, Path: l.path, Incarnation: l.incarnation,
		Err: l.escalated})
	l.logGivingUp()
	l.stop(l.escalated)
}

// logGivingUp says why, once for all levels: those above say it at the level of debugging.
func (l *loop) logGivingUp() {
	level, e := slog.LevelError, l.escalated
	attrs := []any{"path", e.Path, "reason", e.Reason, "err", e}
	if n := len(e.Causes); n > 0 && e.Reason == childAsked {
		last := e.Causes[n-1]
		if _, ok := last.Err.(*EscalationError); ok {
			level = slog.LevelDebug
		}
		attrs = []any{"reason", last.Err, "child", last.Path, "then", "all of " + e.Path + " stops"}
	}
	l.log.Log(context.Background(), level, "supervisor-escalated", attrs...)
}

// stop stops everything for good.
func (l *loop) stop(why error) {
	if !l.stopping {
		l.stopping, l.since = true, time.Now()
		l.onStop(why)
		l.beginSweep(0, why)
	}
}

// beginSweep stops all children from position from on, in reverse. A sweep that is under way is
// widened: it starts over at the end, where there is nothing left to do.
func (l *loop) beginSweep(from uint64, why error) {
	if l.sweeping {
		from = min(from, l.from)
	}
	l.from, l.sweeping, l.why = from, true, why
	l.sweep = l.children.tail
	if l.tree.StopTogether {
		for c := l.children.tail; c != nil && c.pos >= l.from; c = c.prev {
			l.askToStop(c, l.why)
		}
	}
}

// sweepOn goes on stopping and reports whether there is nothing left to stop.
func (l *loop) sweepOn() bool {
	if !l.sweeping {
		return true
	}
	for c := l.sweep; c != nil && c.pos >= l.from; c = l.sweep {
		l.askToStop(c, l.why)
		if c.alive() {
			return false
		}
		if l.stopping && (c.state == StateBackoff || c.state == StateWaiting) {
			l.deadlines.clear(c)
			l.setState(c, StateStopped, time.Now())
		}
		l.sweep = c.prev
	}
	l.sweeping = false
	first := l.children.head
	if l.sweep != nil {
		first = l.sweep.next
	}
	if first != nil && (l.next == nil || first.pos < l.next.pos) {
		l.next = first
	}
	return true
}

// askToStop ends the context of a running child and gives it until its deadline.
func (l *loop) askToStop(c *child, why error) {
	if c.state != StateStarting && c.state != StateRunning {
		return
	}
	now := time.Now()
	l.setState(c, StateStopping, now)
	l.deadlines.clear(c)
	if t := c.def.stopTimeout(); t > 0 {
		l.deadlines.set(c, now.Add(t))
	}
	l.publish(Step{Type: StepStopping, Err: why}, c)
	c.run.cancel(why)
}

// abort is for the end of the deadline of all that is in this supervisor. It makes the loop end
// soon, whatever its children do: so a supervisor never hangs itself, and children that do get
// named.
func (l *loop) abort() {
	if l.aborted {
		return
	}
	l.aborted = true
	l.stop(context.DeadlineExceeded) // it was asked before, and may not have come to that
	limit := time.Now().Add(abortGrace)
	for c := l.children.tail; c != nil; c = c.prev {
		l.askToStop(c, l.why)
		switch {
		case c.state != StateStopping:
		case c.run.sub != nil:
			c.run.sub.inbox.post(abortMsg{})
		case c.index < 0 || c.due > l.at(limit):
			l.deadlines.set(c, limit)
		}
	}
}

// abandon leaves a child behind that did not stop in time.
func (l *loop) abandon(r *run, stack string) {
	c, now := r.c, time.Now()
	r.stuck = &Stuck{Path: c.path, Waited: now.Sub(time.Unix(0, c.since)), Stack: stack}
	c.lingers = true
	l.alive--
	l.deadlines.clear(c) // abort may have set one since this one was due
	l.count(c, addAbandoned)
	l.setState(c, StateStuck, now)
	err := stuckError(c.abandoned())
	c.keep(End{Path: c.path, Incarnation: c.incarnation, When: now, Kind: KindStuck, Err: err})
	l.publish(Step{Type: StepStuck, Kind: KindStuck, Err: err}, c)
	l.log.Error("child-stuck", "path", c.path, "waited", r.stuck.Waited, "stack", stack)
}

// endedLate is the end of all that had been abandoned of a child.
func (l *loop) endedLate(r *run) {
	c, now := r.c, time.Now()
	c.lingers = false
	l.announceLate(r)
	switch {
	case c.remove, c.state == StateStuck && c.dynamic && c.def.Restart == Temporary:
		l.drop(c)
	case c.state != StateStuck: // a tree, which waits for its restart or is not restarted
	case l.stopping, c.def.Restart == Temporary:
		l.setState(c, StateStopped, now)
	default:
		l.setState(c, StateWaiting, now)
	}
}

// announceLate tells of the end of a run that had been abandoned. That of a tree has been told.
func (l *loop) announceLate(r *run) {
	e := Step{Type: StepEndedLate, Path: r.c.path, Incarnation: r.incarnation}
	if r.stuck != nil {
		e.Kind, e.Err = r.end.kind, r.end.err
	}
	l.hub.publish(e)
	l.log.Warn("stuck-child-ended", "path", e.Path, "incarnation", e.Incarnation, "kind",
		string(e.Kind), "err", e.Err)
}
