package supervisor

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Group is the supervisor that a child runs under, as far as children may use it: to run siblings
// that were not known beforehand. It works until that incarnation of the supervisor ends. It is
// safe for concurrent use.
type Group struct {
	l *loop
}

// Start adds a child, last in the order and so the first to be stopped. The child starts at once,
// even when an earlier sibling's gate is still closed. While a group is being restarted it waits
// for its turn. Start does not wait for the child to be ready. Its Gate counts when the group is
// started again.
//
// A child that ends for good is forgotten: its name is free again, and a Report no longer shows it.
//
// Errors: ErrDuplicate, ErrStopped, and those of validation.
func (g *Group) Start(def Child) (*Handle, error) {
	l := g.l
	if err := def.validate(l.path); err != nil {
		return nil, err
	}
	c := &child{dynamic: true}
	err, ok := ask(l, func() error {
		switch other := l.named(def.Name); {
		case l.stopping:
			return l.stopped(def.Name)
		case other != nil && other.lingers:
			return fmt.Errorf("%w: %s/%s: an earlier one was abandoned and is still running: wait "+
				"for its Handle.Done", ErrDuplicate, l.path, def.Name)
		case other != nil:
			return fmt.Errorf("%w: %s/%s: stop that one first, or choose another name",
				ErrDuplicate, l.path, def.Name)
		}
		l.add(c, &def)
		now := time.Now()
		c.since = now.UnixNano()
		if !l.rebuilding() {
			l.start(c, now)
		} else if l.next == nil {
			l.next = c
		}
		return nil
	})
	if !ok {
		err = l.stopped(def.Name)
	}
	if err != nil {
		return nil, err
	}
	return &Handle{c}, nil
}

func (l *loop) stopped(name string) error {
	return fmt.Errorf("%w: start %s/%s: that incarnation of %s has ended or is ending", ErrStopped,
		l.path, name, l.path)
}

// Child finds a child by name: so a manager that was restarted finds the children that its
// predecessor had started.
func (g *Group) Child(name string) (*Handle, bool) {
	c, _ := ask(g.l, func() *child { return g.l.named(name) })
	return &Handle{c}, c != nil
}

// Names lists the group's children in their order, dynamic ones last. It is empty once that
// incarnation of the supervisor has ended.
func (g *Group) Names() []string {
	names, _ := ask(g.l, func() (names []string) {
		for c := g.l.children.head; c != nil; c = c.next {
			names = append(names, c.def.Name)
		}
		return names
	})
	return names
}

// Removed returns a channel that is closed when the next child of the group has been removed and
// has ended. So a child that runs many can wait for any of them: ask for the channel, look at the
// handles, then wait. Ask anew each time. The channel is closed as well when that incarnation of
// the supervisor ends.
func (g *Group) Removed() <-chan struct{} { return g.l.removals.wait() }

// removals tells those who wait that a child has gone. It costs nothing while nobody does.
type removals struct{ next atomic.Pointer[latch] }

func (r *removals) wait() <-chan struct{} {
	r.next.CompareAndSwap(nil, &latch{})
	if l := r.next.Load(); l != nil {
		return l.wait()
	}
	return *shut
}

func (r *removals) ring() {
	if l := r.next.Swap(nil); l != nil {
		l.set()
	}
}

// Handle is one child of a supervisor's incarnation, through all of its own incarnations.
type Handle struct {
	c *child
}

// Name of the child.
func (h *Handle) Name() string { return h.c.def.Name }

// Stop asks the child to stop and be removed, also a static one, until the supervisor's next
// incarnation. It does not block: called for many children, they stop at the same time.
func (h *Handle) Stop() { h.StopFor(ErrRemoved) }

// StopFor is Stop with a cause of the caller's own: [context.Cause] of the child's context.
func (h *Handle) StopFor(cause error) {
	l, c := h.c.l, h.c
	l.inbox.post(request{do: func() {
		if l.named(c.def.Name) != c {
			return // removed already
		}
		c.remove = true
		l.askToStop(c, cause)
		if !c.alive() {
			l.drop(c)
		}
	}, no: func() {}})
}

// Done is closed when the child has been removed, or its supervisor has stopped, and its goroutine
// has really ended: later, if it was abandoned.
func (h *Handle) Done() <-chan struct{} { return h.c.done.wait() }
