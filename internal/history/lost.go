package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/printable"
)

// Gap is a time whose lines could not be written for a process.
type Gap struct {
	Proc     string
	From, To time.Time
}

func (g Gap) String() string {
	return fmt.Sprintf("incomplete: %s has no lines from %s to %s: what it did then is not judged",
		printable.Line(g.Proc), g.From.UTC().Format(time.RFC3339Nano),
		g.To.UTC().Format(time.RFC3339Nano))
}

// MarshalText is the gap in JSON.
func (g Gap) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// moveLostLines moves each line "lost", which is written behind its gap, to where the gap begins.
func moveLostLines(events []Event) []Event {
	if !slices.ContainsFunc(events, func(e Event) bool { return e.Verb == Lost }) {
		return events
	}
	moved := slices.Clone(events)
	for i, e := range moved {
		if e.Verb == Lost {
			moved[i].At = e.At.Add(-max(0, e.For))
		}
	}
	return Merge(moved)
}

// lost notes that lines of a process are missing from here on. Its history breaks off here, as if
// it were killed. Later lines may belong to what is missing.
func (c *checker) lost(i int, e Event, p *process) {
	c.report.Lost = append(c.report.Lost, Gap{e.Proc, e.At, e.At.Add(max(0, e.For))})
	if p == nil {
		return
	}
	c.stopAll(i, p)
	c.unlead(i, p)
	p.linesMissing = true
}
