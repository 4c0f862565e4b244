package supervisor

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	labelPath = "actor"     // the path of the child
	labelRun  = "actor-run" // one child, unique in the process; "3.17" runs inside of "3"
)

var lastRun atomic.Uint64

// newRunID names a child, or one Run of a root. Paths do not suffice to find a stuck
// goroutine: a process may run two trees of the same name.
func newRunID(ctx context.Context) string {
	if r := runOf(ctx); r != nil {
		return runIDIn(r.c.id())
	}
	return strconv.FormatUint(lastRun.Add(1), 36)
}

// runIDIn names what runs inside of another.
func runIDIn(outer string) string {
	id := append(make([]byte, 0, 64), outer...)
	id = append(id, '.')
	return string(strconv.AppendUint(id, lastRun.Add(1), 36))
}

// run is one incarnation of a child: its goroutine, and what became of it. It is the child's
// context as well, which so need not be wrapped once more.
type run struct {
	context.Context
	c           *child
	sub         *loop // of a Tree
	incarnation int
	started     moment
	cancel      context.CancelCauseFunc
	ready       atomic.Bool
	gone        latch // set when the goroutine has really ended
	end         *end  // set by then

	asked atomic.Int64 // the moment when it was asked to stop, and 1; 0: it was not
	stuck *Stuck       // set by the loop when it abandons the run
}

// end is how a run ended. Nobody changes one that the loop knows.
type end struct {
	kind Kind
	err  error
	asks request

	canceled bool // err is the end of a context
	byItself bool // it ended before its context was done
}

// Most ends are one of these, which so take no memory.
var (
	returnedNil = end{kind: KindNil, byItself: true}
	stoppedWell = end{kind: KindNil}
)

type (
	runKey  struct{}
	loopKey struct{}
)

// Value of the context.
func (r *run) Value(key any) any {
	if key == (runKey{}) {
		return r
	}
	return r.Context.Value(key)
}

func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// Ready tells the supervisor that this child is ready. Outside of a child, and
// the second time in one incarnation, it does nothing. It never blocks.
func Ready(ctx context.Context) {
	if r := runOf(ctx); r != nil && r.ready.CompareAndSwap(false, true) {
		r.c.l.inbox.post(readyMsg{r})
	}
}

// Path is the path of the child that ctx belongs to, such as
// "root/office/assigner"; empty outside of one.
func Path(ctx context.Context) string {
	if r := runOf(ctx); r != nil {
		return r.c.path
	}
	return ""
}

// Of is the supervisor that runs the child which ctx belongs to: for siblings
// started while running. nil outside of a child.
func Of(ctx context.Context) *Group {
	if l, ok := ctx.Value(loopKey{}).(*loop); ok {
		return &l.group
	}
	return nil
}

// spawn starts the goroutine. It reports its end to the loop, or, when that is
// over, sees to the rest by itself.
func (r *run) spawn() {
	go r.live()
}

func (r *run) live() {
	defer r.over()
	pprof.SetGoroutineLabels(r)
	if r.sub != nil {
		r.end = r.supervise(r)
		return
	}
	r.end = protect(r, r.c.def.Run)
}

func (r *run) over() {
	if r.end == nil {
		r.end = &end{kind: KindGoexit, err: ErrGoexit, byItself: r.Err() == nil}
	}
	r.gone.set()
	r.cancel(nil)
	if m := (endedMsg{r}); !r.c.l.inbox.post(m) {
		m.refuse(r.c.l)
	}
}

// supervise runs a nested tree. When that had to abandon children, this
// goroutine stays for as long as they do: so a tree lingers exactly as a child
// does, and nothing of it is started a second time meanwhile.
func (r *run) supervise(ctx context.Context) *end {
	res := r.sub.run(ctx)
	e := &end{kind: KindNil, byItself: ctx.Err() == nil}
	switch {
	case res.escalated != nil && (res.fatal || res.terminated == nil):
		e.kind, e.err, e.canceled = KindError, res.escalated, res.canceled
		if res.fatal {
			e.asks = asksToEscalate
		}
	case res.terminated != nil:
		e.kind, e.err, e.asks = KindDone, res.terminated, asksToTerminate
	case res.failed != nil:
		e.kind, e.err, e.canceled = KindError, res.failed, res.canceled
	}
	if len(res.leftovers) > 0 {
		r.c.l.inbox.post(lingersMsg{r, e, res.leftovers})
		r.sub.awaitLate()
	}
	return e
}

// Protect calls f as a supervisor calls a child, for whoever runs a host's function without one. It
// returns f's error, or in place of one that harms who reads it [ErrUnreadable]; a *[PanicError]
// when f panics: a child that returns this has panicked. It does not return when f calls
// runtime.Goexit.
func Protect(f func() error) error {
	return protect(context.Background(), func(context.Context) error { return f() }).err
}

// protect runs f and tells its endings apart. It does not return when f calls
// runtime.Goexit: so the caller tells that from panic(nil) even under
// GODEBUG=panicnil=1, where recover returns nil for both.
func protect(ctx context.Context, f func(context.Context) error) (e *end) {
	returned := false
	defer func() {
		if returned {
			return
		}
		byItself := ctx.Err() == nil
		v := recover()
		if v == nil {
			v = new(runtime.PanicNilError)
		}
		p := &PanicError{Value: v, Stack: debug.Stack()}
		if err, ok := v.(error); ok {
			safe, _, _ := readable(err)
			p.unreadable = errors.Is(safe, ErrUnreadable)
		}
		p.text = textOf(v)
		e = &end{kind: KindPanic, err: p, byItself: byItself}
	}()
	err := f(ctx)
	returned = true
	byItself := ctx.Err() == nil
	switch {
	case err == nil && byItself:
		return &returnedNil
	case err == nil:
		return &stoppedWell
	}
	e = &end{kind: KindError, byItself: byItself}
	if asked, ok := err.(*escalation); ok {
		e.err, _, e.canceled = readable(asked.err)
		e.asks = asksToEscalate
		return e
	}
	e.err, e.asks, e.canceled = readable(err)
	if p, ok := e.err.(*PanicError); ok { // of what ran beside f: see Protect
		return &end{kind: KindPanic, err: p, byItself: byItself}
	}
	if e.asks == asksForNoRestart || e.asks == asksToTerminate {
		e.kind = KindDone
	}
	return e
}

type readyMsg struct{ r *run }

func (m readyMsg) apply(l *loop)  { l.becameReady(m.r) }
func (m readyMsg) refuse(_ *loop) {}

type endedMsg struct{ r *run }

// panicked is for a run that had been abandoned: others are counted with their end.
func (m endedMsg) panicked() bool { return m.r.end.kind == KindPanic && m.r.stuck != nil }

func (m endedMsg) apply(l *loop) {
	if m.r.stuck != nil || m.r.c.lingers {
		if m.panicked() {
			l.count(m.r.c, addPanic)
		}
		l.endedLate(m.r)
		return
	}
	l.ended(m.r, m.r.end)
}

// refuse runs when the loop is over: only an abandoned run ends so late.
func (m endedMsg) refuse(l *loop) {
	if m.panicked() {
		l.hub.tally.count(m.r.c.path, addPanic)
	}
	l.announceLate(m.r)
	if !l.staysCounted(m.r.c) {
		l.hub.tally.forget(m.r.c.path, l.path)
	}
	m.r.c.endedAfterAll()
	m.r.c.done.set()
	if own := m.r.c.extras; own != nil {
		for _, w := range own.waiters {
			w <- nil
		}
	}
	l.removals.ring()
}

type lingersMsg struct {
	r    *run
	e    *end
	left []*run
}

func (m lingersMsg) apply(l *loop) {
	m.r.c.lingers, m.r.c.mine().leftovers = true, m.left
	l.ended(m.r, m.e)
	l.heldUp(m.r.c, time.Now())
}
func (m lingersMsg) refuse(*loop) {}
