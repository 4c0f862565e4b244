package supervisor

import (
	"context"
	"log/slog"
	"math"
	"runtime/pprof"
	"time"
)

// loop is one incarnation of one supervisor. All of its state belongs to the goroutine in run.
// Others send messages. It never waits for a child: it starts, asks and notes, and looks again when
// something has happened.
//
// Two cursors say what it wants. next is the first child that has not been started in order. sweep,
// when children are stopped in reverse, is the child that is being stopped. advance moves both as
// far as they go.
type loop struct {
	loopConfig
	inbox    inbox
	removals removals
	over     chan struct{} // closed when final is set
	final    snapshot

	children  list
	byName    map[string]*child // nil until somebody asks: see named
	deadlines deadlines
	alive     int // goroutines that were not abandoned
	cooling   int // children in StateBackoff

	next     *child
	sweep    *child
	sweeping bool
	from     uint64 // the sweep goes down to this position
	why      error  // of the sweep, or of the stop
	isReady  bool   // onReady has been called

	stopping  bool // for good
	aborted   bool // the deadline for all of it is over
	escalated *EscalationError
	fatal     bool // a child asked for the escalation: it goes to the root

	left  []*run // abandoned; set when it is over
	group groupState
	began time.Time
	since time.Time // of the state
}

// groupState is of the children that are restarted together.
type groupState struct {
	failures failures
	rebuilds bool      // a restart is counted, and not all are stopped, or a backoff is not over
	whole    time.Time // since when all have been started; zero: they are being started
}

type loopConfig struct {
	path        string
	under       string // the supervisor that has this one, or one around it, as a dynamic child
	id          string
	incarnation int
	tree        *Tree
	hub         *hub
	log         *slog.Logger
	base        context.Context // what children inherit: values, never an end
	stopTimeout time.Duration   // of the root; 0: none
	onReady     func()
	onStop      func(why error) // of the root
}

func newLoop(cfg loopConfig) *loop {
	now := time.Now()
	l := &loop{loopConfig: cfg, over: make(chan struct{}), began: now, since: now}
	l.inbox.wake = make(chan struct{}, 1)
	// Looking for a value behind a context of WithoutCancel takes memory unless another is around.
	l.base = context.WithValue(l.base, loopKey{}, l)
	static := make([]child, len(l.tree.Children))
	for i := range static {
		l.add(&static[i], &l.tree.Children[i])
	}
	l.next = l.children.head
	return l
}

// result is what became of an incarnation of a supervisor.
type result struct {
	escalated *EscalationError
	fatal     bool
	left      []*run // abandoned, and not seen to end
}

func (r result) err() error {
	switch {
	case r.escalated != nil && len(r.left) > 0:
		return &bothErrors{r.escalated, stuckError(r.left)}
	case len(r.left) > 0:
		return stuckError(r.left)
	case r.escalated != nil:
		return r.escalated
	}
	return nil
}

func (l *loop) run(ctx context.Context) result {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	timer.Stop()
	done := ctx.Done()
	if ctx.Err() != nil {
		done = nil
		l.stop(context.Cause(ctx))
	}
	l.advance()
	var limit <-chan time.Time // of the whole stop
	const unarmed moment = math.MaxInt64
	armed := unarmed // when the timer fires; it may do so early, and for nothing
	for !l.finished() {
		if l.stopping && l.stopTimeout > 0 && limit == nil {
			limit = time.After(l.stopTimeout)
		}
		if d := l.deadlines; len(d) > 0 && d[0].due < armed {
			now := time.Now()
			wait := time.Duration(d[0].due - l.at(now))
			if wait <= 0 { // a timer that is due costs much
				l.expire(now)
				l.advance()
				continue
			}
			armed = d[0].due
			timer.Reset(wait)
		}
		select {
		case <-done:
			done = nil
			l.stop(context.Cause(ctx))
		case <-l.inbox.wake:
			for _, m := range l.inbox.take() {
				m.apply(l)
			}
		case <-timer.C:
			armed = unarmed
			l.expire(time.Now())
		case <-limit:
			l.abort()
		}
		l.advance()
	}
	return l.finish()
}

func (l *loop) finished() bool { return l.stopping && !l.sweeping && l.alive == 0 }

func (l *loop) finish() result {
	l.since = time.Now()
	l.final = l.snapshot()
	close(l.over)
	rest := l.inbox.close()
	for c := l.children.head; c != nil; c = c.next {
		l.left = append(l.left, c.abandoned()...)
		if !c.lingers { // else its end sees to that
			c.done.set()
		}
	}
	l.removals.ring()
	for _, m := range rest {
		m.refuse(l)
	}
	return result{l.escalated, l.fatal, l.left}
}

// advance does all that can be done now without waiting.
func (l *loop) advance() {
	for l.sweepOn() && !l.stopping && !l.rebuilding() {
		l.group.rebuilds = false
		if l.startOn() {
			return
		}
	}
}

// rebuilding is the time from a failure that concerns a group to the group's start.
func (l *loop) rebuilding() bool {
	return l.sweeping || l.cooling > 0 && l.tree.Strategy != OneForOne
}

// startOn starts children in order up to a closed gate. It reports false when that led to a sweep.
func (l *loop) startOn() bool {
	for c := l.next; c != nil; c = l.next {
		if c.isDue() && !l.start(c, time.Now()) {
			return false
		}
		if c.def.Gate && !c.ready {
			switch {
			case c.alive() || c.state == StateBackoff:
				return true
			case !c.remove && !c.dynamic && c.state != StateDone:
				l.giveUp("a gated child did not get ready and is not restarted", false,
					append(l.failuresOf(c).causes(), c.lastCause()))
				return false
			}
		}
		l.next = c.next
	}
	if l.group.whole.IsZero() {
		l.group.whole = time.Now()
	}
	if !l.isReady {
		l.isReady, l.since = true, time.Now()
		l.onReady()
	}
	return true
}

// start runs a new incarnation, but never beside an older one: then it escalates and reports false.
func (l *loop) start(c *child, now time.Time) bool {
	if c.lingers {
		cause := End{Path: c.path, Incarnation: c.incarnation, When: now, Kind: KindStuck,
			Err: stuckError(c.abandoned())}
		l.giveUp("it cannot restart a child that is still running", false,
			append(l.failuresOf(c).causes(), cause))
		return false
	}
	c.incarnation++
	c.ready = false
	r := &run{c: c, incarnation: c.incarnation, started: l.at(now)}
	if c.base == nil {
		c.base = pprof.WithLabels(l.base,
			pprof.Labels(labelPath, c.path, labelRun, newRunID(l.id)))
	}
	r.Context, r.cancel = context.WithCancelCause(c.base)
	if c.def.Tree != nil {
		r.sub = newLoop(loopConfig{
			path: c.path, under: l.underOf(c), id: c.id(), incarnation: c.incarnation, tree: c.def.Tree,
			hub: l.hub, log: l.log, base: context.WithoutCancel(r),
			onReady: func() { Ready(r) }, onStop: func(error) {},
		})
	}
	c.run = r
	l.alive++
	if c.def.Gate || c.def.Tree != nil {
		l.setState(c, StateStarting, now)
	} else {
		l.setState(c, StateRunning, now)
	}
	if c.def.Gate {
		l.deadlines.set(c, now.Add(gateWord))
	}
	l.publish(Step{Type: StepStarted}, c)
	go r.live()
	return true
}

func (l *loop) becameReady(r *run) {
	c := r.c
	if c.run != r || !c.alive() {
		return
	}
	c.ready = true
	if c.state == StateStarting {
		l.deadlines.clear(c)
		l.setState(c, StateRunning, time.Now())
	}
	l.publish(Step{Type: StepReady}, c)
}

// expire handles all deadlines that are over: gates that are closed for long, restarts that are
// due, and children that were asked to stop and are still there.
func (l *loop) expire(now time.Time) {
	var late []*run
	for c := l.deadlines.popDue(l.at(now)); c != nil; c = l.deadlines.popDue(l.at(now)) {
		switch {
		case c.state == StateStarting:
			waited := time.Duration(l.at(now) - c.run.started)
			l.log.Warn("gate-closed", "path", c.path, "waited", waited.String(), "then",
				"what comes after it is not started until it is ready")
			l.deadlines.set(c, now.Add(waited))
		case c.state == StateBackoff:
			l.setState(c, StateWaiting, now)
			if l.tree.Strategy == OneForOne && !l.stopping {
				l.start(c, now)
			}
		case c.run.sub != nil:
			c.run.sub.inbox.post(abortMsg{})
		default:
			late = append(late, c.run)
		}
	}
	if len(late) == 0 {
		return
	}
	// Finding stacks costs about 100 µs for each goroutine of the process that has labels of its
	// own: too long for the loop when there are thousands.
	go func() { l.inbox.post(abandonMsg{stacksOf(late)}) }()
}

func (l *loop) add(c *child, def *Child) {
	c.def, c.l, c.path = def, l, l.path+"/"+def.Name
	c.state, c.since, c.index = StateWaiting, l.since.UnixNano(), -1
	l.children.append(c)
	if l.byName != nil {
		l.byName[def.Name] = c
	}
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
	c.remove = true
	l.deadlines.clear(c)
	if c.lingers {
		l.setState(c, StateStuck, time.Now())
		return
	}
	l.setState(c, StateStopped, time.Now()) // leaves the counters in order
	if l.next == c {                        // the links of a child that was unlinked grow stale
		l.next = c.next
	}
	if l.sweep == c {
		l.sweep = c.prev
	}
	l.children.unlink(c)
	delete(l.byName, c.def.Name)
	c.done.set()
	l.removals.ring()
}

func (l *loop) setState(c *child, s ChildState, now time.Time) {
	if c.state == StateBackoff {
		l.cooling--
	}
	if s == StateBackoff {
		l.cooling++
	}
	c.state, c.since = s, now.UnixNano()
}

func (l *loop) publish(e Step, c *child) {
	if !l.hub.silent() {
		e.Path, e.Incarnation = c.path, c.incarnation
		l.hub.publish(e)
	}
}
