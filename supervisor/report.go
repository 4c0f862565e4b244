package supervisor

import (
	"slices"
	"time"
)

// ChildState is the state of a child, or of a supervisor as its parent's child.
type ChildState string

const (
	StateWaiting  ChildState = "waiting"  // for its turn to start
	StateStarting ChildState = "starting" // runs; gated or a Tree, and not ready yet
	StateRunning  ChildState = "running"
	StateBackoff  ChildState = "backoff"  // ended, will be started at NextRestart
	StateStopping ChildState = "stopping" // was asked to stop
	StateStopped  ChildState = "stopped"  // has stopped as asked
	StateStuck    ChildState = "stuck"    // did not stop in time, was abandoned, still runs
	StateDone     ChildState = "done"     // returned nil and is not restarted
	StateFailed   ChildState = "failed"   // failed and is not restarted
)

// Report is a snapshot of a tree. It can be marshalled to JSON.
type Report struct {
	Name  string     `json:"name"`
	Path  string     `json:"path"`
	State ChildState `json:"state"`
	Since time.Time  `json:"since,omitzero"` // of the state
	// Incarnation counts starts: 1 is the first, 0 means never started.
	Incarnation int `json:"incarnation"`
	// Restarts counts those that the child's own end brought about in this incarnation of its
	// supervisor. See Counters for totals.
	Restarts int     `json:"restarts"`
	Restart  Restart `json:"restart"`
	Ready    bool    `json:"ready"` // has called Ready in this incarnation
	Dynamic  bool    `json:"dynamic,omitempty"`
	// LastCause is its last end that nobody had asked for, or a panic while it stopped.
	LastCause   *End      `json:"last_cause,omitempty"`
	NextRestart time.Time `json:"next_restart,omitzero"` // in StateBackoff
	// Strategy and Children of a supervisor, in starting order. Children of one that does not run
	// are those of its last incarnation, as they were at its end.
	Strategy *Strategy `json:"strategy,omitempty"`
	Children []Report  `json:"children,omitempty"`
}

// Report describes the whole tree as it is now: also before Run, and after it. It does not wait for
// any child. Each level is exact. Levels are asked one after the other.
func (s *Supervisor) Report() Report {
	s.mu.Lock()
	l := s.loop
	s.mu.Unlock()
	if l == nil {
		return s.tree.report(s.name, s.name)
	}
	return l.report()
}

// Find looks for a path in the report.
func (r *Report) Find(path string) (Report, bool) {
	if r.Path == path {
		return *r, true
	}
	for i := range r.Children {
		if f, ok := r.Children[i].Find(path); ok {
			return f, true
		}
	}
	return Report{}, false
}

// report is what there is to say of a tree that has never run.
func (t *Tree) report(name, path string) Report {
	r := Report{Name: name, Path: path, State: StateWaiting, Strategy: &t.Strategy}
	for i := range t.Children {
		c := &t.Children[i]
		cr := Report{Name: c.Name, Path: path + "/" + c.Name, State: StateWaiting}
		if c.Tree != nil {
			cr = c.Tree.report(cr.Name, cr.Path)
		}
		cr.Restart = c.Restart
		r.Children = append(r.Children, cr)
	}
	return r
}

// snapshot is a level of a report, with the loops that know the levels below.
type snapshot struct {
	report Report
	subs   map[int]*loop
}

// report is called from any goroutine: so no loop ever waits for another.
func (l *loop) report() Report {
	s, ok := ask(l, l.snapshot)
	if !ok {
		<-l.over
		s = l.final
		s.report.Children = slices.Clone(s.report.Children) // it is handed out more than once
	}
	for i, sub := range s.subs {
		s.report.Children[i].Children = sub.report().Children
	}
	return s.report
}

func (l *loop) snapshot() snapshot {
	s := snapshot{report: Report{
		Name: l.path, Path: l.path, State: l.state(), Since: l.since,
		Incarnation: l.incarnation, Ready: l.isReady, Strategy: &l.tree.Strategy,
	}}
	if l.children.len > 0 {
		s.report.Children = make([]Report, 0, l.children.len)
	}
	for c := l.children.head; c != nil; c = c.next {
		r := Report{
			Name:        c.def.Name,
			Path:        c.path,
			State:       c.state,
			Since:       time.Unix(0, c.since),
			Incarnation: c.incarnation,
			Restart:     c.def.Restart,
			Ready:       c.ready && c.alive(),
			Dynamic:     c.dynamic,
		}
		if f := c.record; f != nil {
			r.Restarts = f.restarts
			if f.last != nil {
				cause := *f.last
				r.LastCause = &cause
			}
		}
		if c.state == StateBackoff {
			r.NextRestart = l.began.Add(time.Duration(c.due))
		}
		if t := c.def.Tree; t != nil {
			r.Strategy = &t.Strategy
			if run := c.run; run != nil {
				if s.subs == nil {
					s.subs = make(map[int]*loop)
				}
				s.subs[len(s.report.Children)] = run.sub
			} else {
				r.Children = t.report(c.def.Name, c.path).Children
			}
		}
		s.report.Children = append(s.report.Children, r)
	}
	return s
}

// state of the root; a nested supervisor is described by its parent.
func (l *loop) state() ChildState {
	switch {
	case l.finished() && l.escalated != nil:
		return StateFailed
	case l.finished():
		return StateStopped
	case l.stopping:
		return StateStopping
	case !l.isReady:
		return StateStarting
	}
	return StateRunning
}
