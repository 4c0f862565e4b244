package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/printable"
)

// Options of [Check]. The zero value is for histories of one clock.
type Options struct {
	// Skew is how far the clocks of different writers may be apart: overlaps up to it do not count.
	Skew time.Duration
}

// Notice is how long a process that was frozen may take to see what time it is.
const Notice = time.Second

// Breach is a rule that was broken.
type Breach struct {
	Rule string `json:"rule"` // I1 to I4
	Text string `json:"text"`
	// Stretch are the lines that show the breach, and between the first and the last of them only
	// lines of the same item and processes.
	Stretch []Event `json:"lines"`
}

// maxStretch is how many lines of a stretch are printed; those in its middle are left out.
const maxStretch = 24

func (b Breach) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s: %s", b.Rule, printable.Line(b.Text)) // with ids that others have chosen
	for i, e := range b.Stretch {
		if n := len(b.Stretch); n > maxStretch && i >= maxStretch/2 && i < n-maxStretch/2 {
			if i == maxStretch/2 {
				fmt.Fprintf(&s, "\n    … %d more …", n-maxStretch)
			}
			continue
		}
		s.WriteString("\n    ")
		s.WriteString(printable.Line(e.String())) // a value may be large
	}
	return s.String()
}

// Report is what [Check] found. Its JSON form is that of `coordd verify --json`.
type Report struct {
	Events      int `json:"events"`
	Processes   int `json:"processes"`
	Items       int `json:"items"`
	Starts      int `json:"starts"` // of work
	Leaderships int `json:"leaderships"`
	Writes      int `json:"writes"` // that Consul accepted
	// Fenced counts the overlaps after a thaw in which only the token keeps the late process from
	// doing harm.
	Fenced int `json:"fenced"`
	// Uncertain counts the overlaps with work that was killed, and not found to be gone yet.
	Uncertain int `json:"uncertain"`
	// Forgiven counts the overlaps that began within the amnesty after Consul had lost writes.
	Forgiven int `json:"forgiven"`
	// Settled is how long after the faults all was well and stayed so; negative: not judged.
	Settled time.Duration `json:"-"`
	// Unjudged are the rules that could not be judged for lack of lines, and why.
	Unjudged []string `json:"not_judged"`
	Breaches []Breach `json:"breaches"`
}

// String is the report as text, the breaches first; one line when there is none.
func (r Report) String() string {
	var s strings.Builder
	for _, b := range r.Breaches {
		fmt.Fprintln(&s, b)
	}
	fmt.Fprintf(&s, "%d events: %d processes, %d items, %d starts, %d leaderships, %d writes",
		r.Events, r.Processes, r.Items, r.Starts, r.Leaderships, r.Writes)
	if r.Fenced > 0 {
		fmt.Fprintf(&s, "; %d overlaps after a thaw, fenced by their tokens", r.Fenced)
	}
	if r.Uncertain > 0 {
		fmt.Fprintf(&s, "; %d overlaps with work that was killed and not found gone yet",
			r.Uncertain)
	}
	if r.Forgiven > 0 {
		fmt.Fprintf(&s, "; %d overlaps after Consul had lost writes", r.Forgiven)
	}
	if r.Settled >= 0 {
		fmt.Fprintf(&s, "; settled %v after the faults", r.Settled.Round(time.Millisecond))
	}
	for _, u := range r.Unjudged {
		fmt.Fprintf(&s, "\nnot judged: %s", u)
	}
	if len(r.Breaches) == 0 {
		s.WriteString("\nno breach")
	} else {
		fmt.Fprintf(&s, "\n%d breaches", len(r.Breaches))
	}
	return s.String()
}
