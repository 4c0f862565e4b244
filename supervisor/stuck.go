package supervisor

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// Stuck is a child that did not stop.
type Stuck struct {
	Path   string
	Waited time.Duration // since it was asked to stop
	// Stack of the child's goroutines, of those that it started as well: those
	// that carry its pprof label. In the format of runtime/pprof's goroutine
	// profile with debug=1.
	Stack string
}

// StuckError names the children that were abandoned: Go cannot end a
// goroutine, so they are still running.
type StuckError struct {
	Children []Stuck
}

func (e *StuckError) Error() string {
	var b strings.Builder
	b.WriteString("supervisor: did not stop when asked, still running:")
	for _, s := range e.Children {
		fmt.Fprintf(&b, " %s (for %v);", s.Path, s.Waited)
	}
	if len(e.Children) > 0 {
		fmt.Fprintf(&b,
			" make it return when its context ends, or give it a longer StopTimeout; stack "+
				"of %s:\n%s",
			e.Children[0].Path, e.Children[0].Stack)
	}
	return b.String()
}

func stuckError(runs []*run) *StuckError {
	e := &StuckError{}
	for _, r := range runs {
		if r.stuck != nil {
			e.Children = append(e.Children, *r.stuck)
		}
	}
	return e
}

// lingering filters out those that have ended meanwhile.
func lingering(runs []*run) []*run {
	var left []*run
	for _, r := range runs {
		if !r.gone.isSet() {
			left = append(left, r)
		}
	}
	return left
}

// abandoned is what lingers of a child: itself, or what is inside.
func (c *child) abandoned() []*run {
	if c.extra().leftovers != nil {
		return c.extra().leftovers
	}
	return []*run{c.current.Load()}
}

// stuck names what lingers of a child and runs: nil when all of that has ended. endedLate is called
// at once then, which answers those who wait and lets the child be started.
func (c *child) stuck() error {
	if left := lingering(c.abandoned()); len(left) > 0 {
		return stuckError(left)
	}
	return nil
}

// ran is for how long the run has run by then.
func (r *run) ran(now time.Time) time.Duration {
	return time.Duration(r.c.l.at(now) - r.started)
}

// ask notes when the run was asked to stop.
func (r *run) ask(now time.Time) { r.asked.Store(int64(r.c.l.at(now)) + 1) }

func (r *run) waited(now time.Time) time.Duration {
	if asked := r.asked.Load(); asked != 0 {
		return time.Duration(r.c.l.at(now) - moment(asked-1))
	}
	return 0
}

const noStack = "no goroutine carries its label: it ended just now, or replaced its pprof labels\n"

// stacksOf finds the stacks of runs, with those inside of them, by their labels.
// It takes one profile for all: see BenchmarkNameStuck for what that costs, and naming.
func stacksOf(ids []string) map[string]string {
	if len(ids) == 0 {
		return nil
	}
	var buf bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return nil
	}
	found := make(map[string]*strings.Builder, len(ids))
	for _, id := range ids {
		found[id] = &strings.Builder{}
	}
	// Blocks are separated by empty lines, each with its "# labels: {…}" line.
	for block := range strings.SplitSeq(buf.String(), "\n\n") {
		id := labelOf(block)
		for id != "" {
			if b := found[id]; b != nil {
				b.WriteString(block)
				b.WriteString("\n")
			}
			dot := strings.LastIndexByte(id, '.')
			id = id[:max(dot, 0)]
		}
	}
	stacks := make(map[string]string, len(ids))
	for id, b := range found {
		stacks[id] = b.String()
		if b.Len() == 0 {
			stacks[id] = noStack
		}
	}
	return stacks
}

func labelOf(block string) string {
	_, labels, ok := strings.Cut(block, "\n# labels: {")
	if !ok {
		return ""
	}
	labels, _, _ = strings.Cut(labels, "\n")
	_, id, ok := strings.Cut(labels, strconv.Quote(labelRun)+":\"")
	if !ok {
		return ""
	}
	id, _, _ = strings.Cut(id, `"`)
	return id
}
