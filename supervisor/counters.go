package supervisor

import (
	"maps"
	"strings"
	"sync"
)

// Counts are totals since New, over all Runs and incarnations: they never fall.
type Counts struct {
	// Restarts because the child ended by itself. Restarts because of a sibling are not counted.
	Restarts uint64 `json:"restarts"`
	// Panics of the child, also while it stopped, but not after it was abandoned.
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
	// Children by path, and the root by its name. Children without any counts are left out, and so
	// are dynamic ones that are gone.
	Children map[string]Counts `json:"children"`
	// Removed are the counts of dynamic children that are gone, and of all below them, by the path
	// of their supervisor. With Children they make the total.
	Removed map[string]Counts `json:"removed,omitempty"`
}

// Counters are for metrics: a snapshot, which waits for nobody.
func (s *Supervisor) Counters() Counters {
	t := &s.hub.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Counters{Total: t.total, Children: make(map[string]Counts, len(t.children)),
		Removed: maps.Clone(t.removed)}
	for path, counts := range t.children {
		c.Children[path] = *counts
	}
	return c
}

// tally counts for all supervisors of a tree. Only what goes wrong is counted, so that a healthy
// child costs nothing.
type tally struct {
	mu       sync.Mutex
	total    Counts
	children map[string]*Counts // by path
	removed  map[string]Counts  // by the path of the supervisor
}

func (t *tally) count(path string, add func(*Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.children[path]
	if c == nil {
		if t.children == nil {
			t.children, t.removed = map[string]*Counts{}, map[string]Counts{}
		}
		c = &Counts{}
		t.children[path] = c
	}
	add(c)
	add(&t.total)
}

// forget adds the counts at path to those that parent has lost: for a tree, also all below it.
func (t *tally) forget(path, parent string, tree bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum, some := t.removed[parent], false
	if c := t.children[path]; c != nil {
		sum, some = sum.plus(*c), true
		delete(t.children, path)
	}
	if tree {
		inside := path + "/"
		for p, c := range t.children {
			if strings.HasPrefix(p, inside) {
				sum, some = sum.plus(*c), true
				delete(t.children, p)
			}
		}
		for p, c := range t.removed {
			if p == path || strings.HasPrefix(p, inside) {
				sum, some = sum.plus(c), true
				delete(t.removed, p)
			}
		}
	}
	if some {
		t.removed[parent] = sum
	}
}

func (c Counts) plus(o Counts) Counts {
	return Counts{c.Restarts + o.Restarts, c.Panics + o.Panics, c.Escalations + o.Escalations,
		c.Abandoned + o.Abandoned}
}

// forget leaves the counts of a dynamic child out, once it is gone.
func (l *loop) forget(c *child) {
	if c.dynamic && (c.record != nil || c.def.Tree != nil) {
		l.hub.tally.forget(c.path, l.path, c.def.Tree != nil)
	}
}

func (l *loop) count(c *child, add func(*Counts)) {
	c.faults() // see forget
	l.hub.tally.count(c.path, add)
}

func addRestart(c *Counts)    { c.Restarts++ }
func addPanic(c *Counts)      { c.Panics++ }
func addEscalation(c *Counts) { c.Escalations++ }
func addAbandoned(c *Counts)  { c.Abandoned++ }
