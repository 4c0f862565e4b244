package supervisor

import "sync/atomic"

// Removed returns a channel that is closed when the next child of the group has
// been removed and has ended, so that one who runs many can wait for any of
// them: ask for the channel, look at the handles, then wait. Ask anew each time.
// It is closed as well when that incarnation of the supervisor ends, not when it
// has ended before the call.
func (g *Group) Removed() <-chan struct{} { return g.l.removals.wait() }

// Names lists the group's children in their order, dynamic ones last; nothing
// once that incarnation of the supervisor has ended.
func (g *Group) Names() []string {
	reply := make(chan []string, 1)
	if !g.l.inbox.post(namesMsg{reply}) {
		return nil
	}
	return <-reply
}

type namesMsg struct{ reply chan []string }

func (m namesMsg) apply(l *loop) {
	var names []string
	for c := l.children.head; c != nil; c = c.next {
		names = append(names, c.def.Name)
	}
	m.reply <- names
}

func (m namesMsg) refuse(*loop) { m.reply <- nil }

// removals tells those who wait that a child has gone. It costs nothing while
// nobody does.
type removals struct{ next atomic.Pointer[chan struct{}] }

func (r *removals) wait() <-chan struct{} {
	for {
		if c := r.next.Load(); c != nil {
			return *c
		}
		c := make(chan struct{})
		if r.next.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

func (r *removals) ring() {
	if c := r.next.Swap(nil); c != nil {
		close(*c)
	}
}
