package supervisor

import (
	"container/heap"
	"context"
	"runtime/pprof"
	"time"
)

// child is what the loop knows of one child. Only the loop touches it, but for the fields that say
// otherwise.
type child struct {
	def  *Child
	l    *loop           // immutable
	path string          // immutable
	base context.Context // of all its incarnations, with its pprof labels; immutable once set
	pos  uint64          // rises along the list

	state       ChildState
	since       int64 // of the state: in ns after 1970, a third of a time.Time
	incarnation int
	run         *run    // the newest incarnation; immutable after the loop is over
	record      *record // nil until it fails: see faults

	dynamic bool
	ready   bool
	remove  bool   // forget it when it has ended
	lingers bool   // what was abandoned of it, or inside of it, still runs
	index   int32  // in the heap of deadlines, -1 when not there
	due     moment // of the restart in StateBackoff, else of the loop's patience

	done latch // set when it is removed, or its supervisor is over, and its goroutine has ended

	prev, next *child
}

// record is what most children never have. It would be a sixth of the memory of an idle child.
type record struct {
	restarts int
	last     *End
	policy   Backoff
	failures failures
}

// faults is the child's record, for writing.
func (c *child) faults() *record {
	if c.record == nil {
		c.record = new(record)
	}
	return c.record
}

// id is of all its incarnations, of which no two overlap. A child has one once it was started.
func (c *child) id() string {
	id, _ := pprof.Label(c.base, labelRun)
	return id
}

// alive means that a goroutine runs which was not abandoned.
func (c *child) alive() bool {
	return c.state == StateStarting || c.state == StateRunning || c.state == StateStopping
}

// abandoned is what lingers of a child: itself, or what is inside.
func (c *child) abandoned() []*run {
	switch {
	case !c.lingers:
		return nil
	case c.run.sub != nil:
		return c.run.sub.left
	}
	return []*run{c.run}
}

// isDue tells whether a child whose turn it is has to be started. It is true for one that hangs, if
// it is to be restarted with its group, which then cannot be.
func (c *child) isDue() bool {
	return c.state == StateWaiting ||
		c.state == StateStuck && !c.remove && c.def.Restart != Temporary
}

// list keeps the order of starting. It is linked, so that one of 10,000 dynamic children comes and
// goes in constant time.
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

// moment is how long after the beginning of its loop something is, by the monotonic clock. It is a
// third of a time.Time.
type moment time.Duration

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

// Push is not used: see set.
func (*deadlines) Push(any) {}
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	(*d)[last].index = -1
	(*d)[last] = nil
	*d = (*d)[:last]
	return nil
}

func (d *deadlines) set(c *child, due time.Time) {
	if c.due = c.l.at(due); c.index < 0 {
		c.index = int32(len(*d))
		*d = append(*d, c)
	}
	heap.Fix(d, int(c.index))
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
	c := (*d)[0]
	heap.Pop(d)
	return c
}

// failures are counted by the time for which the child, or the group, had run. The waits for
// restarts are left out: backoff, with its jitter, would else decide about giving up.
type failures struct {
	ran  time.Duration
	list []failure
	from int // the first that counts
}

type failure struct {
	at    time.Duration
	cause End
}

// maxCauses is how many failures are kept where no smaller limit is set.
const maxCauses = 100

// add counts a failure after a run of that length. It forgets those that are out of the period, and
// those beyond the most, and gives the number that is left.
func (f *failures) add(cause End, ran, period time.Duration, most int) int {
	f.ran += ran
	for f.from < len(f.list) && f.ran-f.list[f.from].at >= period {
		f.from++
	}
	f.from = max(f.from, len(f.list)-most+1)
	if len(f.list) == cap(f.list) && f.from > len(f.list)/2 {
		n := copy(f.list, f.list[f.from:])
		clear(f.list[n:])
		f.list, f.from = f.list[:n], 0
	}
	f.list = append(f.list, failure{f.ran, cause})
	return len(f.list) - f.from
}

func (f *failures) causes() []End {
	var causes []End
	for _, one := range f.list[f.from:] {
		causes = append(causes, one.cause)
	}
	return causes
}
