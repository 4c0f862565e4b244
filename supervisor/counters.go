package supervisor

import (
	"strings"
	"sync"
)

// Counts are totals since New, over all Runs and incarnations: they never fall.
type Counts struct {
	// Restarts because the child ended by itself, or was restarted by hand. Those that it shared
	// because of a sibling are not counted.
	Restarts uint64 `json:"restarts"`
	// Panics of the child, also while it stopped.
	Panics uint64 `json:"panics"`
	// Escalations of the supervisor: how often it gave up.
	Escalations uint64 `json:"escalations"`
	// Abandoned incarnations: those that did not stop in time.
	Abandoned uint64 `json:"abandoned"`
}

// Counters are the counts of a whole tree.
type Counters struct {
	// Total of all children, also of those that are gone.
	Total Counts `json:"total"`
	// Children by path, and the root by its name. Who has nothing to count is left out, and so is a
	// dynamic child that is gone: one that was abandoned is not, until it has ended, and one that
	// took the name of a static child that was removed counts as that one.
	Children map[string]Counts `json:"children"`
	// Removed are the counts of dynamic children that are gone, and of all below them, by the path
	// of their supervisor. With Children they make the total.
	Removed map[string]Counts `json:"removed,omitempty"`
}

// Counters are for metrics: a snapshot, which waits for nobody.
func (s *Supervisor) Counters() Counters { return s.hub.tally.snapshot() }

// tally counts for all supervisors of a tree. Only what goes wrong is counted, so that a healthy
// child costs nothing. Its own tree has a branch for each part of a path, so that what is below one
// that goes is found at once.
type tally struct {
	mu    sync.Mutex
	total Counts
	root  branch
}

type branch struct {
	counts  Counts // of the child, or the supervisor
	removed Counts // of what was below it
	below   map[string]*branch
}

func (t *tally) count(path string, add func(*Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.root
	for name := range strings.SplitSeq(path, "/") {
		next := b.below[name]
		if next == nil {
			if b.below == nil {
				b.below = make(map[string]*branch)
			}
			next = &branch{}
			b.below[name] = next
		}
		b = next
	}
	add(&b.counts)
	add(&t.total)
}

func (t *tally) snapshot() Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Counters{Total: t.total, Children: make(map[string]Counts)}
	t.root.each("", func(path string, b *branch) {
		if b.counts != (Counts{}) {
			c.Children[path] = b.counts
		}
		if b.removed != (Counts{}) {
			if c.Removed == nil {
				c.Removed = make(map[string]Counts)
			}
			c.Removed[path] = b.removed
		}
	})
	return c
}

// each calls f for all branches below b, which has that path.
func (b *branch) each(path string, f func(path string, b *branch)) {
	for name, next := range b.below {
		if path != "" {
			name = path + "/" + name
		}
		f(name, next)
		next.each(name, f)
	}
}

// forget adds what is at path and below it to what parent has lost.
func (t *tally) forget(path, parent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := &t.root
	for name := range strings.SplitSeq(parent, "/") {
		if from = from.below[name]; from == nil {
			return // nothing was counted there
		}
	}
	name := path[len(parent)+1:]
	gone := from.below[name]
	if gone == nil {
		return
	}
	delete(from.below, name)
	from.removed.add(gone.counts)
	from.removed.add(gone.removed)
	gone.each(path, func(_ string, b *branch) {
		from.removed.add(b.counts)
		from.removed.add(b.removed)
	})
}

func (c *Counts) add(o Counts) {
	c.Restarts += o.Restarts
	c.Panics += o.Panics
	c.Escalations += o.Escalations
	c.Abandoned += o.Abandoned
}

// staysCounted tells whether what counts at the path of a child does so when that is gone.
func (l *loop) staysCounted(c *child) bool { return !c.dynamic || l.vacant[c.def.Name] }

// forget leaves the counts of a dynamic child out, once it is gone.
func (l *loop) forget(c *child) {
	if l.staysCounted(c) {
		return
	}
	if c.extra().counted || c.def.Tree != nil {
		l.hub.tally.forget(c.path, l.path)
	}
}

func (l *loop) count(c *child, add func(*Counts)) {
	c.mine().counted = true
	l.hub.tally.count(c.path, add)
}

func addRestart(c *Counts)    { c.Restarts++ }
func addPanic(c *Counts)      { c.Panics++ }
func addEscalation(c *Counts) { c.Escalations++ }
func addAbandoned(c *Counts)  { c.Abandoned++ }
