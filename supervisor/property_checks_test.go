package supervisor_test

import (
	"errors"
	"strings"

	"github.com/coordd/coordd/supervisor"
)

// checkEnd compares what Run returned with what is still running.
func (w *witness) checkEnd(err error) {
	var stuck *supervisor.StuckError
	named := map[string]bool{}
	if errors.As(err, &stuck) {
		for _, c := range stuck.Children {
			named[c.Path] = true
			if !strings.Contains(c.Stack, "(*witness).actor") {
				w.faultf("%s is named without its stack: %s", c.Path, c.Stack)
			}
		}
	}
	for p := range w.running {
		if !named[p] {
			w.faultf("%s still runs and is not named in %v", p, err)
		}
	}
	var esc *supervisor.EscalationError
	if errors.As(err, &esc) {
		for _, c := range esc.History() {
			if inner, ok := c.Err.(*supervisor.StuckError); ok && c.Kind == supervisor.KindStuck {
				w.checkStuck(c.Path, inner)
			}
			if c.Path == "" || c.Incarnation == 0 || c.When.IsZero() ||
				c.Err == nil && c.Kind != supervisor.KindNil {
				w.faultf("incomplete cause %+v", c)
			}
		}
		if len(esc.History()) == 0 {
			w.faultf("escalation without a cause")
		}
	}
	if err != nil && esc == nil && stuck == nil {
		w.faultf("Run returned %v", err)
	}
}

// checkStuck is for a supervisor that gave up because a child that is to be restarted hangs.
func (w *witness) checkStuck(path string, err *supervisor.StuckError) {
	if len(err.Children) == 0 {
		w.faultf("%s is stuck, and nobody is named", path)
	}
	if restart, ok := w.restarts[path]; ok && restart == supervisor.Temporary && !w.gates[path] {
		w.faultf("%s is temporary, and its tree gave up because it hangs: %v", path, err)
	}
}

// checkCounters wants nobody left out, and no dynamic child by its name.
func (w *witness) checkCounters(c supervisor.Counters) {
	var sum supervisor.Counts
	for path, n := range c.Children {
		addCounts(&sum, n)
		if strings.Contains(path+"/", "/dyn/") {
			w.faultf("%s is dynamic, and has counts: %+v", path, n)
		}
	}
	for _, n := range c.Dynamic {
		addCounts(&sum, n)
	}
	if sum != c.Total {
		w.faultf("the counts make %+v, and the total is %+v", sum, c.Total)
	}
}

func addCounts(sum *supervisor.Counts, n supervisor.Counts) {
	sum.Restarts += n.Restarts
	sum.Panics += n.Panics
	sum.Escalations += n.Escalations
	sum.Abandoned += n.Abandoned
}

// checkReport wants everything at rest, but for children that hang. What is inside of a child that
// never started waits for ever.
func (w *witness) checkReport(r supervisor.Report, never bool) {
	switch r.State {
	case supervisor.StateStopped, supervisor.StateDone, supervisor.StateFailed,
		supervisor.StateStuck:
	default:
		if !never {
			w.faultf("%s is %s after the end", r.Path, r.State)
		}
	}
	if r.Restart == supervisor.Temporary && r.Incarnation > 1 {
		w.faultf("%s is temporary and ran %d times", r.Path, r.Incarnation)
	}
	for _, c := range r.Children {
		w.checkReport(c, never || r.Incarnation == 0)
	}
}
