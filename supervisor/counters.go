package supervisor

import (
	"maps"
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
	// Children by path, and the root by its name. Children without any counts are left out.
	Children map[string]Counts `json:"children"`
	// Dynamic are the counts of dynamic children, and of all below them, by the path of the
	// supervisor that they were started in. With Children they make the total.
	Dynamic map[string]Counts `json:"dynamic,omitempty"`
}

// Counters are for metrics: a snapshot, which waits for nobody.
func (s *Supervisor) Counters() Counters {
	t := &s.hub.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	return Counters{Total: t.total, Children: maps.Clone(t.children),
		Dynamic: maps.Clone(t.dynamic)}
}

// tally counts for all supervisors of a tree. Only what goes wrong is counted, so that a healthy
// child costs nothing.
type tally struct {
	mu                sync.Mutex
	total             Counts
	children, dynamic map[string]Counts
}

// underOf is the supervisor by which a child is counted; empty: by its own path.
func (l *loop) underOf(c *child) string {
	if c.dynamic && l.under == "" {
		return l.path
	}
	return l.under
}

// count counts for what is at path, or is counted by the supervisor under.
func (t *tally) count(path, under string, add func(*Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children == nil {
		t.children, t.dynamic = map[string]Counts{}, map[string]Counts{}
	}
	of := t.children
	if under != "" {
		of, path = t.dynamic, under
	}
	n := of[path]
	add(&n)
	of[path] = n
	add(&t.total)
}

func (l *loop) count(c *child, add func(*Counts)) {
	l.hub.tally.count(c.path, l.underOf(c), add)
}

func addRestart(c *Counts)    { c.Restarts++ }
func addPanic(c *Counts)      { c.Panics++ }
func addEscalation(c *Counts) { c.Escalations++ }
func addAbandoned(c *Counts)  { c.Abandoned++ }
