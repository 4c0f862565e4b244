package supervisor

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/labels"
)

// stop stops everything for good.
func (l *loop) stop(why error) {
	if l.stopping {
		return
	}
	l.stopping, l.since = true, time.Now()
	if l.root {
		if l.stopTimeout > 0 {
			l.limit = l.since.Add(l.stopTimeout)
		}
		l.hub.publish(
			Event{Type: EventStopping, Path: l.path, Incarnation: l.incarnation, Err: why},
		)
	}
	l.beginSweep(0, why)
}

// obey stops everything because that was asked for. The first who asks is told to all.
func (l *loop) obey(why error) {
	if !l.stopping {
		l.asked = why
	}
	l.stop(why)
}

// beginSweep stops all children from position from on, in reverse. A sweep that
// is under way is widened (failures inside of it do not come here): it starts
// over at the end, where there is nothing left to do.
func (l *loop) beginSweep(from uint64, why error) {
	l.from, l.sweeping, l.why = from, true, why
	l.sweep = l.children.tail
	if !l.tree.StopTogether {
		return
	}
	for c := l.children.tail; c != nil && c.pos >= l.from; c = c.prev {
		l.ask(c, l.why)
	}
}

// rebuilding is the time from a failure that concerns a group to the group's
// start.
func (l *loop) rebuilding() bool {
	return l.sweeping || l.cooling > 0 && l.tree.Strategy != OneForOne
}

// sweepOn goes on stopping and reports whether there is nothing left to stop.
func (l *loop) sweepOn() bool {
	if !l.sweeping {
		return true
	}
	for c := l.sweep; c != nil && c.pos >= l.from; c = l.sweep {
		l.ask(c, l.why)
		if c.alive() {
			if l.awaited != c {
				l.awaited, l.waits = c, time.Now()
			}
			return false
		}
		switch {
		case l.stopping && (c.state == StateBackoff || c.state == StateWaiting):
			l.deadlines.clear(c)
			l.settle(c, StateStopped)
		case !l.stopping && c.state == StateStuck && c.extra().again && c.def.Restart != Temporary:
			c.mine().again = false // the group's restart goes before that by hand
		case !l.stopping && c.def.Restart == Transient && c.extra().last != nil &&
			(c.state == StateDone || c.state == StateStuck && c.extra().after == StateDone) &&
			c.extra().last.Kind != KindDone:
			l.settle(c, StateWaiting) // part of what is built anew
		}
		l.sweep = c.prev
	}
	l.sweeping, l.awaited, l.lost = false, nil, 0
	first := l.children.head
	if l.sweep != nil {
		first = l.sweep.next
	}
	if first != nil && (l.next == nil || first.pos < l.next.pos) {
		l.next = first
	}
	return true
}

// ask ends the context of a running child and gives it until its deadline.
func (l *loop) ask(c *child, why error) {
	if c.state != StateStarting && c.state != StateRunning {
		return
	}
	now := time.Now()
	r := c.current.Load()
	r.ask(now)
	l.setStateAt(c, StateStopping, now)
	l.deadlines.clear(c)
	c.due = never
	if t := c.def.stopTimeout(); t > 0 {
		l.deadlines.set(c, now.Add(t))
	}
	l.publish(Event{Type: EventStopping, Err: why}, c)
	labels.Ending(r, l.labelled, func() { r.cancel(why) })
}

// abort is the end of a parent's patience with this supervisor. It makes the
// loop end soon, whatever its children do, so that a supervisor is never stuck
// itself, and those who are get named.
func (l *loop) abort() {
	if l.aborted {
		return
	}
	l.aborted = true
	l.stop(context.Cause(l.labelled)) // it was asked before, and may not have come to that
	limit := time.Now().Add(abortGrace)
	for c := l.children.tail; c != nil; c = c.prev {
		l.ask(c, l.why)
		switch {
		case c.state != StateStopping:
		case c.def.Tree != nil:
			c.current.Load().sub.inbox.post(abortMsg{})
		case c.due == never, c.due > l.at(limit):
			l.deadlines.set(c, limit)
		}
	}
}

type abortMsg struct{}

func (abortMsg) apply(l *loop)  { l.abort() }
func (abortMsg) refuse(_ *loop) {}

// giveUpOn prepares to abandon children that did not stop in time. Finding their
// stacks costs about 100 µs for each goroutine of the process that has labels of
// its own: too long for the loop when there are thousands.
func (l *loop) giveUpOn(late []*run) {
	if len(late) == 0 {
		return
	}
	go func() {
		if late, stacks := namer.stacksOf(late); len(late) > 0 {
			l.inbox.post(abandonMsg{late, stacks})
		}
	}()
}

type abandonMsg struct {
	late   []*run
	stacks map[string]string
}

func (m abandonMsg) refuse(*loop) {}

func (m abandonMsg) apply(l *loop) {
	now := time.Now()
	for _, r := range m.late {
		if !r.gone.isSet() { // else its end is in the inbox, or has been seen
			l.abandon(r, m.stacks[r.c.id()], now)
		}
	}
}

func (l *loop) abandon(r *run, stack string, now time.Time) {
	c := r.c
	r.stuck = &Stuck{Path: c.path, Waited: r.waited(now), Stack: stack}
	c.lingers = true
	l.alive--
	l.count(c, addAbandoned)
	l.setState(c, StateStuck)
	err := stuckError([]*run{r})
	c.keep(Cause{Path: c.path, Incarnation: c.incarnation, When: now, Kind: KindStuck, Err: err})
	l.publish(Event{Type: EventStuck, Kind: KindStuck, Err: err}, c)
	l.log.Error("child-stuck", "path", c.path, "waited", r.stuck.Waited, "stack", stack)
	l.answer(c, err)
	c.answerRestart(err)
	l.heldUp(c, now)
}

// heldUp counts the time for which a child that hangs, or a tree that has one, held up the stop, of
// all or of a group that is to be started again. A child whose turn has not come, as one that is
// being removed, holds up nobody.
func (l *loop) heldUp(by *child, now time.Time) {
	if !l.sweeping || l.awaited != by {
		return
	}
	l.lost, l.awaited = l.lost+now.Sub(l.waits), nil
	for c := l.children.tail; c != nil && c.pos >= l.from && l.lost >= orderLasts; c = c.prev {
		l.ask(c, l.why)
	}
}

// endedLate is the end of what had been abandoned.
func (l *loop) endedLate(r *run) {
	c := r.c
	c.lingers, c.mine().leftovers = false, nil
	after := c.extra().after
	l.announceLate(r)
	switch {
	case c.state == StateWaiting && l.tree.Strategy == OneForOne && !l.stopping:
		l.start(c, time.Now()) // its backoff was over
	case c.state != StateStuck: // a tree that waits for its restart
	case c.remove:
		l.drop(c)
		if after == StateDone || after == StateFailed {
			l.lastOf(c)
		}
	case c.extra().again && !l.stopping:
		l.startAgain(c)
	case !l.stopping && (after == StateDone || after == StateFailed):
		l.setState(c, after)
		l.lastOf(c)
	case !l.stopping && c.dynamic && c.def.Restart == Temporary:
		l.drop(c)
	case l.stopping, c.def.Restart == Temporary:
		l.setState(c, c.afterStuck())
		if !l.stopping && c.def.Gate && !c.ready {
			l.escalate(gateStaysClosed, false, Cause{Path: c.path, Incarnation: r.incarnation,
				When: time.Now(), Kind: r.end.kind, Err: r.end.err, canceled: r.end.canceled})
		}
	default:
		l.setState(c, StateWaiting)
	}
}

// endedAfterAll says what an abandoned child is that ends when its loop is over: the loop reads
// neither then, and others do when it is done.
func (c *child) endedAfterAll() {
	c.state, c.since = c.afterStuck(), time.Now().UnixNano()
}

// afterStuck is what a child is that was stuck and is not started again.
func (c *child) afterStuck() State {
	if c.extras != nil && (c.extras.after == StateDone || c.extras.after == StateFailed) {
		return c.extras.after
	}
	return StateStopped
}

// awaitLate waits, when the loop is over, until all that it had to abandon has ended, and that has
// been counted and announced: later it would count for what is gone, or for what is there instead.
func (l *loop) awaitLate() {
	for c := l.children.head; c != nil; c = c.next {
		if c.lingers {
			<-c.done.wait()
		}
	}
}

// announceLate tells of the end of a run that had been abandoned: how it ended has not been told
// yet, but of a tree that waited for what it had left behind.
func (l *loop) announceLate(r *run) {
	e := Event{Type: EventEndedLate, Path: r.c.path, Incarnation: r.incarnation}
	how := Cause{Path: r.c.path, Incarnation: r.incarnation}
	if r.stuck != nil {
		how.Kind, how.Err = r.end.kind, r.end.err
		e.Kind, e.Err = how.Kind, how.Err
	}
	l.hub.publish(e)
	attrs := how.attrs()
	if !how.Kind.failed() || r.stuck == nil {
		attrs = attrs[:4]
	}
	l.log.Warn("stuck-child-ended", append(attrs, "waited", r.waited(time.Now()))...)
}
