package supervisor

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
)

const (
	labelPath = "actor"     // the path of the child
	labelRun  = "actor-run" // one child, unique in the process; "3.17" runs inside of "3"
)

var lastRun atomic.Uint64

// newRunID names a child, or one Run of a root, inside of outer. A path does not suffice to find a
// stuck goroutine: a process may run two trees of the same name.
func newRunID(outer string) string {
	id := make([]byte, 0, 64)
	if outer != "" {
		id = append(append(id, outer...), '.')
	}
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
	gone        latch  // set when the goroutine has really ended
	end         *end   // set by then
	stuck       *Stuck // set by the loop when it abandons the run
}

// end is how a run ended. Nobody changes one.
type end struct {
	kind      Kind
	err       error
	escalates bool
	byItself  bool // it ended before its context was done
}

// Most ends are one of these, which so take no memory.
var (
	returnedNil = &end{kind: KindNil, byItself: true}
	stoppedWell = &end{kind: KindNil}
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

// Ready tells the supervisor that this child is ready. Outside of a child, and the second time in
// one incarnation, it does nothing. It never blocks.
func Ready(ctx context.Context) {
	if r := runOf(ctx); r != nil && r.ready.CompareAndSwap(false, true) {
		r.c.l.inbox.post(readyMsg{r})
	}
}

// Path is the path of the child that ctx belongs to, such as "root/office/assigner". It is empty
// outside of a child.
func Path(ctx context.Context) string {
	if r := runOf(ctx); r != nil {
		return r.c.path
	}
	return ""
}

// Of is the supervisor that runs the child which ctx belongs to, for siblings that are started
// while running. It is nil outside of a child.
func Of(ctx context.Context) *Group {
	if l, ok := ctx.Value(loopKey{}).(*loop); ok {
		return &Group{l}
	}
	return nil
}

func (r *run) live() {
	defer r.over()
	pprof.SetGoroutineLabels(r)
	if r.sub != nil {
		r.supervise()
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

// supervise runs a nested tree. When the tree had to abandon children, this goroutine stays for as
// long as they do, and tells of its end twice. So a tree lingers as a child does, and nothing of it is started a second time
// meanwhile.
func (r *run) supervise() {
	res := r.sub.run(r)
	r.end = &end{kind: KindNil, byItself: r.Err() == nil}
	if res.escalated != nil {
		r.end.kind, r.end.err, r.end.escalates = KindError, res.escalated, res.fatal
	}
	if len(res.left) > 0 {
		r.c.l.inbox.post(endedMsg{r})
		for c := r.sub.children.head; c != nil; c = c.next {
			<-c.done.wait()
		}
	}
}

// Protect calls f as a supervisor calls a child. It returns f's error, a *[PanicError] when f
// panics, and [ErrUnreadable] in place of an error that panics when it is printed. A child that
// returns the PanicError has panicked. Protect does not return when f calls runtime.Goexit.
func Protect(f func() error) error {
	return protect(context.Background(), func(context.Context) error { return f() }).err
}

// protect runs f and tells its ends apart. It does not return when f calls runtime.Goexit: so the
// caller tells that from panic(nil) even under GODEBUG=panicnil=1, where recover returns nil for
// both.
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
		stack := debug.Stack()
		v, bad := readable(v)
		if bad != nil {
			v = bad
		}
		e = &end{kind: KindPanic, err: &PanicError{v, stack}, byItself: byItself}
	}()
	err := f(ctx)
	returned = true
	byItself := ctx.Err() == nil
	switch {
	case err == nil && byItself:
		return returnedNil
	case err == nil:
		return stoppedWell
	}
	e = &end{kind: KindError, byItself: byItself}
	var bad error
	if e.err, bad = readable(err); bad != nil {
		e.err = bad
		return e
	}
	if e.escalates = escalates(err); e.escalates {
		if wrapped, ok := err.(*escalation); ok {
			e.err = wrapped.err
		}
	} else if _, ok := err.(*PanicError); ok { // of what ran beside f: see Protect
		e.kind = KindPanic
	}
	return e
}
