package supervisor

import (
	"maps"
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
	// dynamic child that is gone.
	Children map[string]Counts `json:"children"`
	// Removed are the counts of dynamic children that are gone, and of all below them, by the path
	// of their supervisor. With Children they make the total.
	Removed map[string]Counts `json:"removed,omitempty"`
}

// Counters are for metrics: a snapshot, which waits for nobody.
func (s *Supervisor) Counters() Counters { return s.hub.tally.snapshot() }

// tally counts for all supervisors of a tree. Only what goes wrong is counted, so that a healthy
// child costs nothing.
type tally struct {
	mu       sync.Mutex
	total    Counts
	children map[string]*Counts
	removed  map[string]Counts
}

func (t *tally) count(path string, add func(*Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children == nil {
		t.children = make(map[string]*Counts)
	}
	c := t.children[path]
	if c == nil {
		c = new(Counts)
		t.children[path] = c
	}
	add(c)
	add(&t.total)
}

func (t *tally) snapshot() Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	children := make(map[string]Counts, len(t.children))
	for path, c := range t.children {
		children[path] = *c
	}
	return Counters{t.total, children, maps.Clone(t.removed)}
}

// forget adds what is at path and below it to what parent has lost.
func (t *tally) forget(path, parent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := t.removed[parent]
	for p, c := range t.children {
		if p == path || strings.HasPrefix(p, path) && p[len(path)] == '/' {
			gone.add(*c)
			delete(t.children, p)
		}
	}
	for p, c := range t.removed {
		if p == path || strings.HasPrefix(p, path) && p[len(path)] == '/' {
			gone.add(c)
			delete(t.removed, p)
		}
	}
	if gone == (Counts{}) {
		return
	}
	if t.removed == nil {
		t.removed = make(map[string]Counts)
	}
	t.removed[parent] = gone
}

func (c *Counts) add(o Counts) {
	c.Restarts += o.Restarts
	c.Panics += o.Panics
	c.Escalations += o.Escalations
	c.Abandoned += o.Abandoned
}

// forget leaves the counts of a dynamic child out, once it is gone.
func (l *loop) forget(c *child) {
	if !c.dynamic {
		return
	}
	if c.counted || c.def.Tree != nil {
		l.hub.tally.forget(c.path, l.path)
	}
}

func (l *loop) count(c *child, add func(*Counts)) {
	c.counted = true
	l.hub.tally.count(c.path, add)
}

func addRestart(c *Counts)    { c.Restarts++ }
func addPanic(c *Counts)      { c.Panics++ }
func addEscalation(c *Counts) { c.Escalations++ }
func addAbandoned(c *Counts)  { c.Abandoned++ }
