package supervisor

import (
	"context"
	"runtime/pprof"
	"time"
)

// Waited is how long ago one that started at a time and was asked to stop later had been asked.
func Waited(started, asked, now time.Time) time.Duration {
	r := &run{c: &child{l: &loop{began: started}}}
	r.ask(asked)
	return r.waited(now)
}

// BeforeItsEndIsTold has f called when the child that ctx belongs to has ended, before anybody is
// told. It is called by the child, before that says that it is ready.
func BeforeItsEndIsTold(ctx context.Context, f func()) {
	r := runOf(ctx)
	cancel := r.cancel
	r.cancel = func(cause error) {
		cancel(cause)
		if r.gone.isSet() {
			f()
		}
	}
}

// HoldCounts lets nobody count, nor move counts, until it is released.
func HoldCounts(s *Supervisor) (release func()) {
	s.hub.tally.mu.Lock()
	return s.hub.tally.mu.Unlock
}

// Late is a child that did not stop in time, without its supervisor. Its own goroutine is the one
// that looks for its stack.
type Late struct{ r *run }

// NewLate makes one of that id.
func NewLate(id string) Late {
	labels := pprof.Labels(labelRun, id)
	return Late{&run{c: &child{base: pprof.WithLabels(context.Background(), labels)}}}
}

// End of it.
func (l Late) End() { l.r.gone.set() }

// Stacks are all that have been looked for with its own, and whether it is to be abandoned.
func (l Late) Stacks() (stacks map[string]string, late bool) {
	pprof.SetGoroutineLabels(l.r.c.base)
	left, stacks := namer.stacksOf([]*run{l.r})
	return stacks, len(left) > 0
}

// HoldNaming lets nobody look for stacks until so many children wait for theirs and it is released.
func HoldNaming() (release func(waiting int)) {
	namer.turn.Lock()
	return func(waiting int) {
		for {
			namer.mu.Lock()
			n := namer.next
			ready := n != nil && len(n.late) == waiting
			namer.mu.Unlock()
			if ready {
				break
			}
			time.Sleep(time.Millisecond)
		}
		namer.turn.Unlock()
	}
}
