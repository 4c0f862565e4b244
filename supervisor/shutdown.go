package supervisor

import "fmt"

// AutoShutdown says when a tree ends by itself. It then stops what is left of its children, in
// order, and ends well: Run returns nil. The first failure of a child that counts, which only a
// Temporary one can have, is what Run returns instead.
//
// A nested tree that has ended so has returned nil, or that error, as its parent's child. Names and
// meanings but for AllDone are those of Erlang/OTP's auto_shutdown.
type AutoShutdown int

const (
	// Never is the zero value: a tree goes on when all of its children are done. Dynamic ones may
	// come.
	Never AutoShutdown = iota
	// AnySignificant ends the tree when a Significant child has ended for good.
	AnySignificant
	// AllSignificant ends the tree when the last Significant child has ended for good.
	AllSignificant
	// AllDone ends the tree when every child has ended for good or was removed. All children count.
	AllDone
)

func (a AutoShutdown) String() string {
	switch a {
	case Never:
		return "never"
	case AnySignificant:
		return "any-significant"
	case AllSignificant:
		return "all-significant"
	case AllDone:
		return "all-done"
	}
	return fmt.Sprintf("AutoShutdown(%d)", int(a))
}

// accepts refuses a significant child whose end could never come, or would mean nothing.
func (t *Tree) accepts(path string, c *Child) error {
	switch {
	case !c.Significant:
		return nil
	case t.AutoShutdown != AnySignificant && t.AutoShutdown != AllSignificant:
		return fmt.Errorf(
			"supervisor: %s/%s is Significant, which means nothing with AutoShutdown %v: "+
				"use AnySignificant or AllSignificant",
			path,
			c.Name,
			t.AutoShutdown,
		)
	case c.Restart == Permanent:
		return fmt.Errorf(
			"supervisor: %s/%s is Significant and Permanent, and so never ends for good: "+
				"use Transient or Temporary",
			path,
			c.Name,
		)
	}
	return nil
}

// open means that a child runs, will run, or lingers.
func (c *child) open() bool {
	return c.state != StateStopped && c.state != StateDone && c.state != StateFailed
}

// countOpen keeps the numbers of open children; by is 1 or -1.
func (l *loop) countOpen(c *child, by int) {
	l.open += by
	if c.def.Significant {
		l.significant += by
	}
}

// endedForGood ends the tree when that of c calls for it.
func (l *loop) endedForGood(c *child, cause Cause) {
	how := l.tree.AutoShutdown
	if how == Never || how != AllDone && !c.def.Significant {
		return
	}
	if cause.Kind.failed() && l.failed == nil {
		l.failed, l.canceled = &story{[]any{cause.Path + ": ", cause.Err}}, cause.canceled
	}
	if how == AnySignificant {
		l.stop(l.shutdownBy(c))
	}
	l.lastOf(c)
}

// lastOf ends the tree when c was the last of those that it waits for.
func (l *loop) lastOf(c *child) {
	if l.tree.AutoShutdown == AllSignificant && c.def.Significant && l.significant == 0 {
		l.stop(l.shutdownBy(c))
	}
}

// allDone means that nothing is left to wait for.
func (l *loop) allDone() bool { return l.tree.AutoShutdown == AllDone && l.open == 0 }
