package supervisor

import (
	"container/heap"
	"context"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

// child is what the loop knows of one child. Only the loop touches it, but for
// the fields that say otherwise.
type child struct {
	def  *Child
	l    *loop           // immutable
	path string          // immutable
	base context.Context // with its pprof labels; of all its incarnations; immutable
	pos  uint64          // rises along the list

	state       State
	since       int64 // of the state: in ns after 1970, a third of a time.Time
	incarnation int
	extras      *extras // see extra and mine

	index   int32 // in the heap of deadlines, -1 when not there
	dynamic bool
	ready   bool
	remove  bool // forget it when it has ended
	lingers bool // goroutines of an abandoned incarnation are still there

	current atomic.Pointer[run] // newest incarnation; read by anyone
	done    latch               // set: removed, or its supervisor over, and its goroutine ended

	due moment // of the restart in StateBackoff, of patience in StateStopping

	prev, next *child
}

// extras are what most children never have: they are made when one of them is set. They would be a
// sixth of the memory that an idle child takes.
type extras struct {
	restarts   int
	last       *Cause
	policy     Backoff
	failures   intensity
	leftovers  []*run       // of a tree that lingers
	after      State        // when it does not linger any more; "": as its Restart type says
	waiters    []chan error // for its removal
	restarters []chan error // for its next start
	again      bool         // someone asked for its next start
	counted    bool         // it has counts of its own
}

// extra is for reading.
func (c *child) extra() extras {
	if c.extras == nil {
		return extras{}
	}
	return *c.extras
}

// mine is for setting.
func (c *child) mine() *extras {
	if c.extras == nil {
		c.extras = new(extras)
	}
	return c.extras
}

// id is of all its incarnations, of which no two overlap. It has one once it was started.
func (c *child) id() string {
	id, _ := pprof.Label(c.base, labelRun)
	return id
}

// keep replaces the last cause. Most causes are of clean stops, and are not kept.
func (c *child) keep(cause Cause) {
	own := c.mine()
	if own.last == nil {
		own.last = new(Cause)
	}
	*own.last = cause
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
	len        int
}

func (l *list) append(c *child) {
	l.pos++
	l.len++
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
	l.len--
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

// moment is how long after the beginning of its loop something is, by the monotonic clock: a third
// of a time.Time.
type moment time.Duration

const never moment = -1

func (l *loop) at(t time.Time) moment { return moment(t.Sub(l.began)) }

// deadlines is a heap by due time: one timer serves all children.
type deadlines []*child

func (d deadlines) Len() int { return len(d) }
func (d deadlines) Less(i, j int) bool {
	if d[i].due == d[j].due {
		return d[i].pos < d[j].pos
	}
	return d[i].due < d[j].due
}
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = int32(i), int32(j)
}
func (d *deadlines) Push(x any) {
	c := x.(*child)
	c.index = int32(len(*d))
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
	c.due = c.l.at(due)
	if c.index >= 0 {
		heap.Fix(d, int(c.index))
	} else {
		heap.Push(d, c)
	}
}

func (d *deadlines) clear(c *child) {
	if c.index >= 0 {
		heap.Remove(d, int(c.index))
	}
}

func (d *deadlines) popDue(now moment) *child {
	if len(*d) == 0 || (*d)[0].due > now {
		return nil
	}
	return heap.Pop(d).(*child)
}
