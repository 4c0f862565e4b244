package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// maxHistory is how many causes a supervisor keeps that gives up for another reason than too many
// restarts.
const maxHistory = 100

// ended decides what follows on the end of a run.
func (l *loop) ended(r *run, e *end) {
	c := r.c
	// One that ended before it was asked has not stopped, whatever was asked of it meanwhile.
	asked := c.state == StateStopping && !e.byItself
	err := e.err
	if e.kind == KindNil && !asked && c.def.Restart == Permanent {
		err = ErrReturned
	}
	l.alive--
	l.clock = time.Now()
	if e.kind == KindPanic {
		l.count(c, addPanic)
	}
	l.deadlines.clear(c)
	cause := Cause{
		Path:        c.path,
		Incarnation: r.incarnation,
		When:        l.clock,
		Kind:        e.kind,
		Err:         err,
		canceled:    e.canceled,
	}
	if asked {
		l.publish(Event{Type: EventStopped, Kind: e.kind, Err: err}, c)
		l.noteBadStop(c, cause)
	} else {
		c.keep(cause)
		l.publish(Event{Type: EventEnded, Kind: e.kind, Err: err}, c)
	}
	// In a tree that was asked to stop, a child whose turn had not come may have
	// asked for it: that one's context was not done.
	heard := !asked || c.def.Tree != nil
	fatal := heard && e.asks == asksToEscalate
	over := heard && e.asks == asksToTerminate
	switch {
	case c.remove:
		if !asked && e.kind.failed() {
			l.logFailure(cause, "restart", "none, it is removed")
		}
		l.drop(c)
	case l.stopping:
		l.settle(c, StateStopped)
		if !asked && e.kind.failed() {
			l.logFailure(cause, "restart", "none, the supervisor is stopping")
		}
	case fatal:
		l.settle(c, StateFailed)
	case over:
		l.settle(c, StateDone)
	case c.extra().again:
		if !asked && e.kind.failed() {
			l.logFailure(cause, "restart", "by hand")
		}
		l.startAgain(c)
	case asked:
		l.rejoin(c, cause)
	case l.sweeping && c.pos >= l.from:
		l.joinSweep(c, cause)
	case c.def.Restart == Permanent && e.kind != KindDone,
		c.def.Restart == Transient && e.kind.failed():
		l.fail(r, cause)
	default:
		l.retire(c, cause)
	}
	if fatal {
		l.escalate(childAsked, true, cause)
	}
	if over && l.terminated == nil {
		l.terminated = e.err
		l.obey(e.err)
	}
}

// noteBadStop keeps what a child did on its way out. Its context was done: it has
// stopped, whatever it says. Errors are mostly the noise of things being closed;
// a panic never is.
func (l *loop) noteBadStop(c *child, cause Cause) {
	if !cause.Kind.failed() || cause.Kind == KindError && cause.canceled {
		return
	}
	c.keep(cause)
	level := slog.LevelWarn
	if cause.Kind == KindError {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, "child-failed-while-stopping", cause.attrs()...)
}

// settle ends a static child for good, or until a group restart.
func (l *loop) settle(c *child, s State) {
	if c.lingers {
		c.mine().after, s = s, StateStuck
	}
	l.setState(c, s)
}

// gateStaysClosed is why a supervisor gives up whose group was stopped too early.
const gateStaysClosed = "a gated temporary child was stopped before it was ready"

// gateFailed is why one does that whose order comes to a gate that nothing could ever open.
const gateFailed = "a gated temporary child failed before it was ready"

// failed means that a child has failed for good, also where something of it lingers.
func (c *child) failed() bool {
	return c.state == StateFailed || c.state == StateStuck && c.extra().after == StateFailed
}

// rejoin readies a child that was stopped with its group for the group's start.
func (l *loop) rejoin(c *child, cause Cause) {
	switch {
	case c.def.Restart != Temporary:
		l.settle(c, StateWaiting)
	case c.dynamic:
		l.drop(c)
	case c.def.Gate && !c.ready:
		l.settle(c, StateStopped)
		l.escalate(gateStaysClosed, false, cause)
	default:
		l.settle(c, StateStopped)
	}
}

// joinSweep is for a child that ended by itself while its group was being
// stopped: its turn had not come yet. The group is started again anyhow, so this
// is not counted as another restart.
func (l *loop) joinSweep(c *child, cause Cause) {
	again := c.def.Restart == Permanent ||
		c.def.Restart == Transient && (cause.Kind != KindNil || !c.dynamic)
	again = again && cause.Kind != KindDone
	if !again {
		l.retire(c, cause)
		return
	}
	if cause.Kind != KindNil || c.def.Restart == Permanent {
		l.logFailure(cause, "restart", "with its group")
	}
	l.settle(c, StateWaiting)
}

// retire is for a child that is not restarted.
func (l *loop) retire(c *child, cause Cause) {
	failed := cause.Kind.failed()
	if failed {
		l.logFailure(cause, "restart", "none")
	}
	s := StateDone
	if failed {
		s = StateFailed
	}
	switch {
	case !c.dynamic:
		l.settle(c, s)
	case c.lingers:
		c.mine().after = s
		l.drop(c)
	default:
		l.drop(c)
	}
	l.endedForGood(c, cause)
}

// fail restarts a child after its backoff, with those that its strategy names,
// unless there were too many restarts.
func (l *loop) fail(r *run, cause Cause) {
	c := r.c
	limit, period := l.tree.maxRestarts(), l.tree.period()
	l.remember(cause)
	if limit >= 0 && !l.rebuilds { // else this restart of the group has been counted
		count, ran := &c.mine().failures, r.ran(cause.When)
		if l.tree.Strategy != OneForOne { // it is the group that is restarted
			count, ran = &l.failures, l.groupRan(ran, cause.When)
		}
		if count.add(cause, ran, period); len(count.failures) > limit {
			l.settle(c, StateFailed)
			l.history = record{causes: count.causes()}
			l.giveUp(fmt.Sprintf("more than %d restarts within %v", limit, period), false)
			return
		}
	}
	wait, err := c.delay(r.ran(cause.When))
	if err != nil {
		l.settle(c, StateFailed)
		l.giveUp(err.Error(), false)
		return
	}
	c.mine().restarts++
	l.count(c, addRestart)
	l.setStateAt(c, StateBackoff, cause.When)
	l.deadlines.set(c, cause.When.Add(wait))
	l.publish(Event{Type: EventRestarting, After: wait, Kind: cause.Kind, Err: cause.Err}, c)
	l.logFailure(cause, "restart_in", wait)
	if l.tree.Strategy == OneForOne {
		return
	}
	l.rebuilds, l.whole = true, time.Time{}
	switch l.tree.Strategy {
	case OneForAll:
		l.beginSweep(0, restartedWith(cause))
	case RestForOne:
		l.beginSweep(c.pos, restartedWith(cause))
	}
}

// groupRan is for how long the group has run since its last restart, when a child fails that itself
// ran for that long. With RestForOne that one may have run on during many restarts of others.
func (l *loop) groupRan(ran time.Duration, now time.Time) time.Duration {
	if !l.whole.IsZero() {
		return now.Sub(l.whole)
	}
	return min(ran, now.Sub(l.rebuilt))
}

func (l *loop) logFailure(cause Cause, more ...any) {
	if !l.log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	l.log.Warn("child-failed", append(cause.attrs(), more...)...)
}

// attrs are what the log says of a failure: of a panic also its stack.
func (c Cause) attrs() []any {
	attrs := []any{"path", c.Path, "incarnation", c.Incarnation, "kind", string(c.Kind), "err",
		c.Err}
	if p, ok := c.Err.(*PanicError); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	return attrs
}

// record is what failed lately. Its space is used again.
type record struct {
	causes []Cause
	from   int // the first that counts
}

// remember keeps the failures of the last period.
func (l *loop) remember(cause Cause) {
	h := &l.history
	for h.from < len(h.causes) && cause.When.Sub(h.causes[h.from].When) >= l.tree.period() {
		h.from++
	}
	h.from = max(h.from, len(h.causes)-maxHistory+1)
	if len(h.causes) == cap(h.causes) && h.from > len(h.causes)/2 {
		n := copy(h.causes, h.causes[h.from:])
		clear(h.causes[n:])
		h.causes, h.from = h.causes[:n], 0
	}
	h.causes = append(h.causes, cause)
}

// intensity counts failures by the time for which who failed had run. The time that it waited for
// its restarts is left out: backoff, with its jitter, would else decide whether it is given up.
type intensity struct {
	ran      time.Duration
	failures []failure
}

type failure struct {
	at    time.Duration
	cause Cause
}

// add counts a failure after a run of that length, and forgets those that are out of the period.
func (n *intensity) add(cause Cause, ran, period time.Duration) {
	n.ran += ran
	old := 0
	for old < len(n.failures) && n.ran-n.failures[old].at >= period {
		old++
	}
	n.failures = append(n.failures[old:], failure{n.ran, cause})
}

func (n *intensity) causes() []Cause {
	causes := make([]Cause, 0, len(n.failures))
	for _, f := range n.failures {
		causes = append(causes, f.cause)
	}
	return causes
}

func (l *loop) escalate(reason string, fatal bool, cause Cause) {
	l.remember(cause)
	l.giveUp(reason, fatal)
}

// giveUp stops everything; the error goes to the parent when that is done. An Escalate that comes
// by then goes before another reason: the parent must not start the tree again.
func (l *loop) giveUp(reason string, fatal bool) {
	again := l.escalated != nil
	if again && (l.fatal || !fatal) {
		return
	}
	l.escalated = &EscalationError{
		Path:   l.path,
		Reason: reason,
		Causes: slices.Clone(l.history.causes[l.history.from:]),
	}
	l.fatal = fatal
	l.canceled = slices.ContainsFunc(l.escalated.Causes, func(c Cause) bool { return c.canceled })
	if again {
		return // it has been told, and counted
	}
	l.hub.tally.count(l.path, addEscalation)
	l.hub.publish(
		Event{Type: EventEscalated, Path: l.path, Incarnation: l.incarnation, Err: l.escalated},
	)
	l.log.Error("supervisor-escalated", "path", l.path, "reason", reason, "err", l.escalated)
	l.stop(l.escalated)
}
