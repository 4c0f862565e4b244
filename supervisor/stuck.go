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
	// Stack of the child's goroutines, and of those that it started: those that carry its pprof
	// label. The format is that of runtime/pprof's goroutine profile with debug=1.
	Stack string
}

// StuckError names the children that were abandoned. Go cannot end a goroutine, so they still run.
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
		fmt.Fprintf(&b, " make it return when its context ends, or give it a longer StopTimeout; "+
			"stack of %s:\n%s", e.Children[0].Path, e.Children[0].Stack)
	}
	return b.String()
}

func stuckError(runs []*run) *StuckError {
	e := &StuckError{}
	for _, r := range runs {
		e.Children = append(e.Children, *r.stuck)
	}
	return e
}

// bothErrors is errors.Join in an order of its own. errors.As must find the StuckError that names
// all, before one that is among the causes of the first error.
type bothErrors struct {
	first error
	stuck *StuckError
}

func (e *bothErrors) Error() string   { return e.first.Error() + "\n" + e.stuck.Error() }
func (e *bothErrors) Unwrap() []error { return []error{e.stuck, e.first} }

// lingering filters out the runs that have ended meanwhile.
func lingering(runs []*run) []*run {
	var left []*run
	for _, r := range runs {
		if !r.gone.isSet() {
			left = append(left, r)
		}
	}
	return left
}

const noStack = "no goroutine carries its label: it ended just now, or replaced its pprof labels\n"

// stacksOf finds the stacks of runs by their labels. A label is that of the run or of what runs
// inside of it. It takes one profile for all runs.
func stacksOf(runs []*run) map[*run]string {
	var buf bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&buf, 1) // a buffer takes everything
	found := make(map[string]string, len(runs))
	for _, r := range runs {
		found[r.c.id()] = ""
	}
	// Blocks are separated by empty lines, each with its "# labels: {…}" line.
	for block := range strings.SplitSeq(buf.String(), "\n\n") {
		for id := labelOf(block); id != ""; id = id[:max(strings.LastIndexByte(id, '.'), 0)] {
			if stack, ok := found[id]; ok {
				found[id] = stack + block + "\n"
			}
		}
	}
	stacks := make(map[*run]string, len(runs))
	for _, r := range runs {
		if stacks[r] = found[r.c.id()]; stacks[r] == "" {
			stacks[r] = noStack
		}
	}
	return stacks
}

func labelOf(block string) string {
	_, labels, _ := strings.Cut(block, "\n# labels: {")
	labels, _, _ = strings.Cut(labels, "\n")
	_, id, _ := strings.Cut(labels, strconv.Quote(labelRun)+":\"")
	id, _, _ = strings.Cut(id, `"`)
	return id
}
