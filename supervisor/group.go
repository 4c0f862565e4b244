package supervisor

import (
	"context"
	"fmt"
	"time"
)

// Group is the supervisor that a child runs under, as far as children may use
// it: to run siblings that were not known beforehand. It works until that
// incarnation of the supervisor ends. Safe for concurrent use.
type Group struct {
	l *loop
}

// Start adds a child, last in the order and so the first to be stopped. It
// starts at once, even when an earlier sibling's gate is still closed (the one
// who starts it may be that sibling); only while a group is being restarted it
// waits for its turn. Start does not wait for it to be ready. Gate counts when
// the group is started again.
//
// When it ends for good it is forgotten: its name is free again, and a Report
// no longer shows it.
//
// Errors: ErrDuplicate, ErrStopped, and those of validation.
func (g *Group) Start(c Child) (*Handle, error) {
	if err := c.validate(g.l.path); err != nil {
		return nil, err
	}
	if err := g.l.tree.accepts(g.l.path, &c); err != nil {
		return nil, err
	}
	if c.Tree != nil {
		c.Tree = c.Tree.clone()
	}
	reply := make(chan startReply, 1)
	if !g.l.inbox.post(startMsg{c, reply}) {
		return nil, g.stopped("start", c.Name)
	}
	r := <-reply
	return r.h, r.err
}

// Stop asks a child to stop and removes it: a static one too, until the
// supervisor's next incarnation. It returns nil when the child has ended. When
// ctx or the child's StopTimeout is over before, the error is a *StuckError with
// the child's stack; the child is then still asked to stop, and keeps its name
// until it ends. Others: ErrUnknown, ErrStopped.
//
// A child cannot wait for its own end: it calls Handle.Stop, or returns.
func (g *Group) Stop(ctx context.Context, name string) error {
	if r := runOf(ctx); r != nil && r.c.l == g.l && r.c.def.Name == name {
		return fmt.Errorf(
			"supervisor: %s cannot wait for its own end: return, or call Handle.Stop",
			r.c.path,
		)
	}
	reply := make(chan error, 1)
	m := stopMsg{name: name, reply: reply, found: make(chan *child, 1)}
	if !g.l.inbox.post(m) {
		return g.stopped("stop", name)
	}
	return answered(ctx, "stop", <-m.found, reply)
}

// answered waits for the end of what is asked of c, which is nil when it was not found.
func answered(ctx context.Context, verb string, c *child, reply <-chan error) error {
	if c == nil {
		return <-reply
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-reply: // it was there as well
		return err
	default:
	}
	err := fmt.Errorf("supervisor: %s %s: %w", verb, c.path, ctx.Err())
	if r := c.current.Load(); r != nil {
		if late, stacks := namer.stacksOf([]*run{r}); len(late) > 0 {
			s := Stuck{Path: c.path, Waited: r.waited(time.Now()), Stack: stacks[c.id()]}
			return fmt.Errorf("%w: %w", err, &StuckError{Children: []Stuck{s}})
		}
	}
	if verb == "stop" {
		return <-reply // it has ended just now
	}
	return fmt.Errorf("%w: nothing of it runs, it waits for its turn", err)
}

// Child finds a child by name: so a manager that was restarted finds the
// children that its predecessor had started.
func (g *Group) Child(name string) (*Handle, bool) {
	reply := make(chan *child, 1)
	if !g.l.inbox.post(findMsg{name, reply}) {
		return nil, false
	}
	c := <-reply
	if c == nil {
		return nil, false
	}
	return &Handle{g.l, c}, true
}

func (g *Group) stopped(verb, name string) error {
	return fmt.Errorf(
		"%w: %s %s/%s: that incarnation of %s has ended or is ending",
		ErrStopped,
		verb,
		g.l.path,
		name,
		g.l.path,
	)
}

// Handle is one child of a supervisor's incarnation, through all of its own
// incarnations.
type Handle struct {
	l *loop
	c *child
}

// Name of the child.
func (h *Handle) Name() string { return h.c.def.Name }

// Stop asks the child to stop and be removed. It does not block: called for
// many children, they stop at the same time.
func (h *Handle) Stop() { h.l.inbox.post(stopMsg{c: h.c}) }

// Done is closed when the child has been removed, or its supervisor has
// stopped, and its goroutine has really ended: later, if it was abandoned.
func (h *Handle) Done() <-chan struct{} { return h.c.done.wait() }

type startReply struct {
	h   *Handle
	err error
}

type startMsg struct {
	def   Child
	reply chan startReply
}

func (m startMsg) apply(l *loop) {
	switch {
	case l.stopping:
		m.refuse(l)
		return
	case l.named(m.def.Name) != nil:
		err := fmt.Errorf(
			"%w: %s/%s: stop that one first, or choose another name",
			ErrDuplicate,
			l.path,
			m.def.Name,
		)
		if l.named(m.def.Name).lingers {
			err = fmt.Errorf(
				"%w: %s/%s: an earlier one was abandoned and is still running: "+
					"wait for its Handle.Done",
				ErrDuplicate,
				l.path,
				m.def.Name,
			)
		}
		m.reply <- startReply{err: err}
		return
	}
	c := l.add(new(child), &m.def, true)
	if !l.rebuilding() {
		l.start(c, time.Now())
	}
	m.reply <- startReply{h: &Handle{l, c}}
}

func (m startMsg) refuse(l *loop) {
	m.reply <- startReply{err: l.group.stopped("start", m.def.Name)}
}

// stopMsg names its child, with a reply, or holds it, without.
type stopMsg struct {
	name  string
	c     *child
	found chan *child
	reply chan error
}

func (m stopMsg) apply(l *loop) {
	c := m.c
	if c == nil {
		c = l.named(m.name)
		defer func() { m.found <- c }() // a child that has ended is answered for before
		if c == nil {
			m.reply <- fmt.Errorf("%w: %s/%s", ErrUnknown, l.path, m.name)
			return
		}
		own := c.mine()
		own.waiters = append(own.waiters, m.reply)
	} else if l.named(c.def.Name) != c {
		return // removed already
	}
	c.remove = true
	l.ask(c, ErrRemoved)
	if !c.alive() {
		l.drop(c)
	}
}

func (m stopMsg) refuse(l *loop) {
	if m.reply != nil {
		m.found <- nil
		m.reply <- l.group.stopped("stop", m.name)
	}
}

type findMsg struct {
	name  string
	reply chan *child
}

func (m findMsg) apply(l *loop)  { m.reply <- l.named(m.name) }
func (m findMsg) refuse(_ *loop) { m.reply <- nil }
