package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"time"
)

// loop is one incarnation of one supervisor. All of its state belongs to the
// goroutine in run; everybody else sends messages. It never waits for a child:
// it starts, asks and notes, and looks again when something has happened.
//
// What it wants to be is described by two cursors. next is the first child that
// has not been started in order; sweep, when stopping a group in reverse, is the
// child that is being stopped. advance moves both as far as they go.
type loop struct {
	loopConfig
	labelled context.Context // with the pprof labels of its goroutine
	inbox    inbox
	removals removals
	group    Group
	over     chan struct{} // closed when final is set
	final    snapshot

	children  list
	byName    map[string]*child // nil until somebody asks: see named
	vacant    map[string]bool   // names of static children that were removed; nil: none
	deadlines deadlines
	alive     int // goroutines that were not abandoned
	cooling   int // children in StateBackoff

	open        int // children that run, will run, or linger
	significant int // those of them that are

	next     *child
	sweep    *child
	sweeping bool
	why      error  // the sweep, or the stop
	from     uint64 // the sweep goes down to this position
	announce bool   // onReady has been called

	stopping  bool          // for good
	aborted   bool          // the deadline for all of it is over
	limit     time.Time     // of the stop of the root; zero: none
	awaited   *child        // whose end the sweep waits for
	waits     time.Time     // since when it does
	lost      time.Duration // waited, during a sweep, for children that were abandoned
	escalated *EscalationError
	asked     error // why it was stopped, unless it has come to that by itself
	failed    error // of the first child that counts for AutoShutdown
	canceled  bool  // what it failed with, or gave up for, is the end of a context
	fatal     bool

	terminated error // what said ErrTerminate

	history  record
	failures intensity // of the group, where that is restarted together
	rebuilds bool      // it is: not all are stopped, or a backoff is not over
	rebuilt  time.Time // the last time that this was over
	whole    time.Time // since when all of it has been started; zero: it is being started
	began    time.Time
	clock    time.Time // when it last looked: what is due by then need not wait for another look
	since    time.Time // of the state
}

type loopConfig struct {
	path        string
	id          string
	incarnation int
	tree        *Tree
	hub         *hub
	log         *slog.Logger
	base        context.Context // what children inherit: values, never an end
	root        bool
	stopTimeout time.Duration // of the root; 0: none
	onReady     func()
}

func newLoop(cfg loopConfig) *loop {
	l := &loop{
		loopConfig: cfg,
		over:       make(chan struct{}),
		began:      time.Now(),
	}
	l.since = l.began
	l.inbox.wake = make(chan struct{}, 1)
	l.group.l = l
	// Looking for a value behind a context of WithoutCancel takes memory unless another is around.
	l.base = context.WithValue(l.base, loopKey{}, l)
	static := make([]child, len(l.tree.Children))
	for i := range static {
		l.add(&static[i], &l.tree.Children[i], false)
	}
	l.next = l.children.head
	return l
}

// result is what became of an incarnation of a supervisor.
type result struct {
	escalated *EscalationError
	failed    error
	asked     error
	canceled  bool
	fatal     bool

	terminated error
	leftovers  []*run // abandoned, and not seen to end
}

func (r result) err() error {
	left, first := r.leftovers, r.failed
	if r.escalated != nil {
		first = r.escalated
	}
	switch {
	case first != nil && len(left) > 0:
		return &bothErrors{first, stuckError(left)}
	case len(left) > 0:
		return stuckError(left)
	}
	return first
}

func (l *loop) run(ctx context.Context) result {
	l.labelled = ctx
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	done := ctx.Done()
	if ctx.Err() != nil {
		done = nil
		l.obey(context.Cause(ctx))
	}
	l.advance()
	var armed time.Time // when the timer fires; it may do so early, and for nothing
	for !l.finished() {
		var expired <-chan time.Time
		if due := l.due(); !due.IsZero() {
			if armed.IsZero() || due.Before(armed) {
				if due.After(l.clock) {
					l.clock = time.Now()
				}
				wait := due.Sub(l.clock)
				if wait <= 0 {
					l.overdue(l.clock)
					continue
				}
				timer.Reset(wait)
				armed = due
			}
			expired = timer.C
		}
		select {
		case <-done:
			done = nil
			l.obey(context.Cause(ctx))
			l.advance()
		case <-l.inbox.wake:
			for _, m := range l.inbox.take() {
				m.apply(l)
			}
			l.advance()
		case <-expired:
			armed = time.Time{}
			l.overdue(time.Now())
		}
	}
	return l.finish()
}

// overdue does what time alone calls for.
func (l *loop) overdue(now time.Time) {
	if !l.limit.IsZero() && !now.Before(l.limit) {
		l.limit = time.Time{}
		l.abort()
	}
	l.expire(now)
	l.advance()
}

// due is when time alone calls for something; the zero time: never.
func (l *loop) due() time.Time {
	due := l.limit
	if len(l.deadlines) > 0 {
		first := l.began.Add(time.Duration(l.deadlines[0].due))
		if due.IsZero() || first.Before(due) {
			due = first
		}
	}
	return due
}

func (l *loop) finished() bool { return l.stopping && !l.sweeping && l.alive == 0 }

func (l *loop) finish() result {
	res := result{
		escalated:  l.escalated,
		failed:     l.failed,
		asked:      l.asked,
		terminated: l.terminated,
		canceled:   l.canceled,
		fatal:      l.fatal,
	}
	for c := l.children.head; c != nil; c = c.next {
		switch {
		case c.lingers && c.extra().leftovers != nil:
			res.leftovers = append(res.leftovers, c.extra().leftovers...)
		case c.lingers:
			res.leftovers = append(res.leftovers, c.current.Load())
		}
	}
	l.since = time.Now()
	l.final = l.snapshot()
	close(l.over)
	rest := l.inbox.close()
	for c := l.children.head; c != nil; c = c.next {
		if !c.lingers { // else its end sees to that
			l.forget(c)
			c.done.set()
		}
		if c.extra().restarters != nil {
			c.answerRestart(l.group.stopped("restart", c.def.Name))
		}
	}
	l.removals.ring()
	for _, m := range rest {
		m.refuse(l)
	}
	return res
}

// advance does all that can be done now without waiting.
func (l *loop) advance() {
	for l.sweepOn() && !l.stopping {
		switch {
		case l.rebuilding():
			return
		case l.rebuilds:
			l.rebuilds, l.rebuilt = false, time.Now()
		case !l.startOn():
		case !l.allDone():
			return
		default:
			l.stop(ErrShutdown)
		}
	}
}

// startOn starts children in order up to a closed gate. It reports false when a
// start led to a sweep.
func (l *loop) startOn() bool {
	for c := l.next; c != nil; c = l.next {
		if c.isDue() && !l.start(c, time.Now()) {
			return false
		}
		if c.isDue() || c.extra().again && c.lingers && c.stuck() == nil {
			return true // when the end of the one before is told
		}
		if c.def.Gate && !c.ready {
			if c.alive() || c.state == StateBackoff || c.extra().again && !c.remove {
				return true
			}
			if c.failed() && !c.remove { // a temporary one: only who restarts it could open it
				l.escalate(gateFailed, false, *c.extras.last)
				return false
			}
		}
		l.next = c.next
	}
	if l.whole.IsZero() {
		l.whole = time.Now()
	}
	if !l.announce {
		l.announce, l.since = true, time.Now()
		l.onReady()
	}
	return true
}

// isDue tells whether a child whose turn it is has to be started: also one that lingers, if it is
// to be restarted with its group, which cannot be. One that is restarted by hand is restarted when
// it has ended.
func (c *child) isDue() bool {
	switch {
	case c.state != StateStuck:
		return c.state == StateWaiting
	case c.remove || c.extra().again:
		return false
	case c.extra().after != "":
		return c.extra().after == StateWaiting
	}
	// nothing could ever open the gate of a temporary one, unless it is forgotten
	return c.def.Restart != Temporary || c.def.Gate && !c.ready && !c.dynamic
}

// start runs a new incarnation, but never beside an older one: then it
// escalates and reports false. When the older one has ended, and only that is still to be told, it
// leaves the child to that.
func (l *loop) start(c *child, now time.Time) bool {
	if c.lingers {
		stuck := c.stuck()
		if stuck == nil {
			return true
		}
		l.escalate("it cannot restart a child that is still running", false, Cause{
			Path: c.path, Incarnation: c.incarnation, When: now, Kind: KindStuck, Err: stuck,
		})
		return false
	}
	c.incarnation++
	c.ready = false
	if c.extras != nil {
		c.extras.again, c.extras.after = false, ""
	}
	r := &run{c: c, incarnation: c.incarnation, started: l.at(now)}
	if c.base == nil {
		labels := pprof.Labels(labelPath, c.path, labelRun, runIDIn(l.id))
		c.base = pprof.WithLabels(l.base, labels)
	}
	r.Context, r.cancel = context.WithCancelCause(c.base)
	if c.def.Tree != nil {
		r.sub = newLoop(loopConfig{
			path: c.path, id: c.id(), incarnation: c.incarnation, tree: c.def.Tree,
			hub: l.hub, log: l.log, base: context.WithoutCancel(r),
			onReady: func() { Ready(r) },
		})
	}
	c.current.Store(r) // complete: Restart looks into it from anywhere
	l.alive++
	if c.def.Gate || c.def.Tree != nil {
		l.setStateAt(c, StateStarting, now)
	} else {
		l.setStateAt(c, StateRunning, now)
	}
	if c.def.Gate {
		l.deadlines.set(c, now.Add(gateWord))
	}
	l.publish(Event{Type: EventStarted}, c)
	r.spawn()
	c.answerRestart(nil)
	return true
}

func (l *loop) becameReady(r *run) {
	c := r.c
	if c.current.Load() != r || !c.alive() {
		return
	}
	c.ready = true
	if c.state == StateStarting {
		l.deadlines.clear(c)
		l.setState(c, StateRunning)
	}
	l.publish(Event{Type: EventReady}, c)
}

// expire handles all deadlines that are over: restarts that are due, and
// children that were asked to stop and are still there.
func (l *loop) expire(now time.Time) {
	var late []*run
	for c := l.deadlines.popDue(l.at(now)); c != nil; c = l.deadlines.popDue(l.at(now)) {
		switch {
		case c.state == StateStarting:
			waited := c.current.Load().ran(now)
			l.log.Warn(
				"gate-closed",
				"path",
				c.path,
				"waited",
				waited.String(),
				"then",
				"what comes after it is not started until it is ready",
			)
			l.deadlines.set(c, now.Add(waited))
		case c.state == StateBackoff && l.stopping:
			l.settle(c, StateStopped)
		case c.state == StateBackoff:
			l.setStateAt(c, StateWaiting, now)
			if l.tree.Strategy == OneForOne {
				l.start(c, now)
			}
		case c.def.Tree != nil:
			c.current.Load().sub.inbox.post(abortMsg{})
		default:
			late = append(late, c.current.Load())
		}
	}
	l.giveUpOn(late)
}

func (l *loop) add(c *child, def *Child, dynamic bool) *child {
	c.def, c.l, c.path, c.dynamic = def, l, l.path+"/"+def.Name, dynamic
	c.state, c.since, c.index = StateWaiting, l.since.UnixNano(), -1
	if dynamic {
		c.since = time.Now().UnixNano()
	}
	l.children.append(c)
	if l.byName != nil {
		l.byName[def.Name] = c
	}
	l.countOpen(c, 1)
	return c
}

// named finds a child by its name: nil where there is none. Most trees never ask.
func (l *loop) named(name string) *child {
	if l.byName == nil {
		l.byName = make(map[string]*child, l.children.len)
		for c := l.children.head; c != nil; c = c.next {
			l.byName[c.def.Name] = c
		}
	}
	return l.byName[name]
}

// drop forgets a child that will not run again, once it is really gone.
func (l *loop) drop(c *child) {
	if c.lingers {
		c.remove = true
		l.setState(c, StateStuck)
		if err := c.stuck(); err != nil {
			l.answer(c, err)
			c.answerRestart(err)
		}
		return
	}
	l.setState(c, StateStopped) // leaves the counters in order
	l.deadlines.clear(c)
	if l.next == c { // the links of a child that was unlinked grow stale
		l.next = c.next
	}
	if l.sweep == c {
		l.sweep = c.prev
	}
	l.forget(c)
	if !c.dynamic {
		if l.vacant == nil {
			l.vacant = make(map[string]bool)
		}
		l.vacant[c.def.Name] = true
	}
	l.children.unlink(c)
	delete(l.byName, c.def.Name)
	l.answer(c, nil)
	if c.extra().restarters != nil {
		c.answerRestart(fmt.Errorf("%w: %s was removed", ErrUnknown, c.path))
	}
	c.done.set()
	l.removals.ring()
}

func (l *loop) answer(c *child, err error) {
	if c.extras == nil {
		return
	}
	for _, w := range c.extras.waiters {
		w <- err
	}
	c.extras.waiters = nil
}

func (l *loop) setState(c *child, s State) { l.setStateAt(c, s, time.Now()) }

func (l *loop) setStateAt(c *child, s State, now time.Time) {
	if c.state == StateBackoff {
		l.cooling--
	}
	if s == StateBackoff {
		l.cooling++
	}
	was := c.open()
	c.state, c.since = s, now.UnixNano()
	if is := c.open(); is && !was {
		l.countOpen(c, 1)
	} else if was && !is {
		l.countOpen(c, -1)
	}
}

func (l *loop) publish(e Event, c *child) {
	if l.hub.silent() {
		return
	}
	e.Path, e.Incarnation = c.path, c.incarnation
	l.hub.publish(e)
}
