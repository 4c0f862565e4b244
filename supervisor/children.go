package supervisor

import (
	"container/heap"
	"context"
	"sync/atomic"
	"time"
)

// child is what the loop knows of one child. Only the loop touches it, but for
// the fields that say otherwise.
type child struct {
	def     *Child
	path    string          // immutable
	id      string          // of all its incarnations, of which no two overlap; immutable
	base    context.Context // with its pprof labels; of all its incarnations; immutable
	pos     uint64          // rises along the list
	dynamic bool

	state       State
	since       time.Time
	ready       bool
	remove      bool // forget it when it has ended
	lingers     bool // goroutines of an abandoned incarnation are still there
	incarnation int
	restarts    int
	last        *Cause
	policy      Backoff
	failures    intensity
	leftovers   []*run       // of a tree that lingers
	after       State        // when it does not linger any more; "": as its Restart type says
	waiters     []chan error // for its removal
	restarters  []chan error // for its next start
	counted     bool         // it has counts of its own
	again       bool         // someone asked for its next start

	current atomic.Pointer[run] // newest incarnation; read by anyone
	done    latch               // set: removed, or its supervisor over, and its goroutine ended

	due   time.Time // of the restart in StateBackoff, of patience in StateStopping
	index int       // in the heap of deadlines, -1 when not there

	prev, next *child
}

// keep replaces the last cause. Most causes are of clean stops, and are not kept.
func (c *child) keep(cause Cause) {
	if c.last == nil {
		c.last = new(Cause)
	}
	*c.last = cause
}

// alive means that a goroutine runs which was not abandoned.
func (c *child) alive() bool {
	return c.state == StateStarting || c.state == StateRunning || c.state == StateStopping
}

// list keeps the order of starting. Linked, so that one of 10,000 dynamic
// children comes and goes in constant time.
type list struct {
	head, tail *child
	pos        uint64
}

func (l *list) append(c *child) {
	l.pos++
	c.pos = l.pos
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next, c.prev = c, l.tail
	}
	l.tail = c
}

// unlink leaves c's own links in place.
func (l *list) unlink(c *child) {
	if c.prev == nil {
		l.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
}

// deadlines is a heap by due time: one timer serves all children.
type deadlines []*child

func (d deadlines) Len() int { return len(d) }
func (d deadlines) Less(i, j int) bool {
	if d[i].due.Equal(d[j].due) {
		return d[i].pos < d[j].pos
	}
	return d[i].due.Before(d[j].due)
}
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}
func (d *deadlines) Push(x any) {
	c := x.(*child)
	c.index = len(*d)
	*d = append(*d, c)
}
func (d *deadlines) Pop() any {
	old := *d
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	c.index = -1
	return c
}

func (d *deadlines) set(c *child, due time.Time) {
	c.due = due
	if c.index >= 0 {
		heap.Fix(d, c.index)
	} else {
		heap.Push(d, c)
	}
}

func (d *deadlines) clear(c *child) {
	if c.index >= 0 {
		heap.Remove(d, c.index)
	}
}

func (d *deadlines) popDue(now time.Time) *child {
	if len(*d) == 0 || (*d)[0].due.After(now) {
		return nil
	}
	return heap.Pop(d).(*child)
}
