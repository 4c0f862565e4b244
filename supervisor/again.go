package supervisor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Restart stops the child of that name, if it runs, and starts it again: without a backoff, and
// whatever its Restart type or state, also when it is done or has failed for good. Its siblings go
// on. It counts as no failure. Where a group is being restarted the child takes part in that.
//
// Restart returns nil when the new incarnation has started. When ctx or the child's StopTimeout is
// over before, the error is a *StuckError; the child is then restarted when it has ended, unless it
// is restarted with its group, which gives up when it comes to one that hangs. Where it does not
// run, and ctx is over before its turn to start has come, the error is that of ctx alone; it is
// started all the same. Others: ErrUnknown, ErrStopped.
func (g *Group) Restart(ctx context.Context, name string) error {
	if r := runOf(ctx); r != nil && r.c.l == g.l && r.c.def.Name == name {
		return fmt.Errorf("supervisor: %s cannot wait for its own end: return", r.c.path)
	}
	reply := make(chan error, 1)
	m := restartMsg{name: name, reply: reply, found: make(chan *child, 1)}
	if !g.l.inbox.post(m) {
		return g.stopped("restart", name)
	}
	return answered(ctx, "restart", <-m.found, reply)
}

// Restart is Group.Restart for the child of that path, such as "root/office/assigner", anywhere in
// the tree.
func (s *Supervisor) Restart(ctx context.Context, path string) error {
	s.mu.Lock()
	l := s.loop
	s.mu.Unlock()
	rest, ok := strings.CutPrefix(path, s.name+"/")
	if !ok {
		return fmt.Errorf("%w: %s: the paths of this tree begin with %s/", ErrUnknown, path, s.name)
	}
	if l == nil {
		return fmt.Errorf("%w: restart %s: Run has not been called", ErrStopped, path)
	}
	for {
		name, below, deeper := strings.Cut(rest, "/")
		if !deeper {
			return l.group.Restart(ctx, name)
		}
		h, ok := l.group.Child(name)
		if !ok {
			return fmt.Errorf("%w: %s/%s", ErrUnknown, l.path, name)
		}
		r := h.c.current.Load()
		if r == nil || r.sub == nil {
			return fmt.Errorf("%w: %s: nothing runs inside of %s", ErrUnknown, path, h.c.path)
		}
		l, rest = r.sub, below
	}
}

type restartMsg struct {
	name  string
	found chan *child
	reply chan error
}

func (m restartMsg) apply(l *loop) {
	c := l.named(m.name)
	defer func() { m.found <- c }()
	switch {
	case l.stopping:
		m.reply <- l.group.stopped("restart", m.name)
		return
	case c == nil:
		m.reply <- fmt.Errorf("%w: %s/%s", ErrUnknown, l.path, m.name)
		return
	case c.remove:
		m.reply <- fmt.Errorf("%w: %s is being removed", ErrUnknown, c.path)
		return
	}
	if c.lingers && l.tree.Strategy != OneForOne && (c.isDue() || c.state == StateBackoff) {
		if err := c.stuck(); err != nil { // the group's restart goes before that by hand
			m.reply <- err
			return
		}
	}
	own := c.mine()
	own.restarters, own.again = append(own.restarters, m.reply), true
	l.ask(c, ErrRestarted)
	switch {
	case c.lingers:
		l.deadlines.clear(c)
		l.startAgain(c)
	case c.alive() || c.state == StateWaiting:
	case c.state == StateBackoff && l.tree.Strategy != OneForOne,
		!c.dynamic && l.next != nil && c.pos >= l.next.pos:
		l.deadlines.clear(c)
		l.makeReadyAgain(c) // its turn comes: those before it are started first
	default:
		l.deadlines.clear(c)
		l.startAgain(c)
	}
}

func (m restartMsg) refuse(l *loop) {
	m.found <- nil
	m.reply <- l.group.stopped("restart", m.name)
}

// startAgain starts a child that does not run because someone asked for it, with its group where
// that is being restarted. One of which something lingers comes here again when that has ended.
func (l *loop) startAgain(c *child) {
	if c.lingers {
		l.settle(c, StateWaiting)
		if err := c.stuck(); err != nil {
			c.answerRestart(err)
		}
		return
	}
	l.makeReadyAgain(c)
	if !l.rebuilding() || c.pos < l.from {
		l.start(c, time.Now())
	}
}

// makeReadyAgain readies a child for the start that someone asked for.
func (l *loop) makeReadyAgain(c *child) {
	l.settle(c, StateWaiting)
	own := c.mine()
	own.policy = nil
	own.restarts++
	l.count(c, addRestart)
}

// answerRestart tells those who wait for the child's next start.
func (c *child) answerRestart(err error) {
	if c.extras == nil {
		return
	}
	for _, w := range c.extras.restarters {
		w <- err
	}
	c.extras.restarters = nil
}
