package operator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/protocol"
)

// Problem is one thing that is wrong with a service, in words.
type Problem struct {
	// Kind is "no-leader", "brake", "refused-order", "failing-member", "silent-member",
	// or the state of the items that it is about.
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Count is how many items it is about; Items names up to three.
	Count int      `json:"count,omitempty"`
	Items []string `json:"items,omitempty"`
	// Until is when that is over at the latest, by the clock of the leader; zero: not known.
	Until time.Time `json:"until,omitzero"`
}

// Problem says in one line what is wrong; the empty string: nothing. A service without a member has
// no leader, and that is a problem.
func (s Status) Problem() string {
	texts := make([]string, len(s.Problems))
	for i, p := range s.Problems {
		texts[i] = p.Text
	}
	return strings.Join(texts, "; ")
}

// slowStart is for how long work may be starting before that is a problem.
const slowStart = time.Minute

// troubles are the states that are a problem, the worst first, and how that is said of one item and
// of several. What is a moment in the life of every item, that it starts or moves, is none.
var troubles = []struct {
	state     ItemState
	one, many string
}{
	{ItemLooping, "loops", "loop"},
	{ItemFailing, "fails its check", "fail their check"},
	{ItemStuck, "ignores its order to stop", "ignore their order to stop"},
	{ItemQuarantined, "is quarantined", "are quarantined"},
	{ItemWaiting, "waits", "wait"},
	{ItemFree, "is free", "are free"},
	{ItemStarting, "has been starting for more than a minute",
		"have been starting for more than a minute"},
	{ItemUnknown, "is not known to run", "are not known to run"},
}

// problems says what is wrong: nobody leads, items run nowhere or loop, members fail or are silent.
func problems(s Status, items []ItemStatus, now time.Time) (all []Problem) {
	add := func(kind, format string, args ...any) {
		all = append(all, Problem{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	if n := len(s.Members); s.Leader == nil && n == 0 {
		add("no-leader", "nobody leads: no member is registered")
	} else if s.Leader == nil {
		add("no-leader", "nobody leads, of %s", plural(n, "member"))
	}
	for _, t := range troubles {
		alike := map[string][]ItemStatus{} // by why
		for _, i := range items {
			if i.State != t.state || i.Removed && t.state != ItemStuck ||
				t.state == ItemStarting && (i.Since.IsZero() || now.Sub(i.Since) <= slowStart) ||
				t.state == ItemUnknown && i.Cause != CauseUntold { // its member's problem, if any
				continue
			}
			why := ""
			if t.state == ItemWaiting || t.state == ItemFree {
				why = i.Why
			}
			alike[why] = append(alike[why], i)
		}
		for _, why := range slices.Sorted(maps.Keys(alike)) {
			n, verb := len(alike[why]), t.many
			if t.state == ItemLooping || t.state == ItemQuarantined ||
				t.state == ItemStuck || t.state == ItemFailing {
				n = max(n, s.Work.States[t.state]) // some may not be named
			}
			if n == 1 {
				verb = t.one
			}
			all = append(all, trouble(t.state, plural(n, "item")+" "+verb, n, alike[why], why))
		}
	}
	memberProblems(s, add)
	for _, key := range slices.Sorted(maps.Keys(s.Refused)) {
		add("refused-order", "Consul refuses what the leader writes about %s, which it tries "+
			"every 30 s: %s", key, s.Refused[key])
	}
	if s.Brake != "" && !slices.ContainsFunc(items, func(i ItemStatus) bool {
		return i.Cause == CauseBrake && !i.Removed
	}) {
		add("brake", "the leader holds back: %s", s.Brake)
	}
	return all
}

// memberProblems are those of members.
func memberProblems(s Status, add func(kind, format string, args ...any)) {
	for _, m := range s.Members {
		if n := m.FailedItems; n >= protocol.SuspectAfter {
			add("failing-member", "work fails at %s: %s moved elsewhere", m.ID, plural(n, "item"))
		}
	}
	for _, m := range s.Members {
		if m.Warns != "" {
			add("silent-member", "%s cannot tell what the work of its items (%d) does: %s", m.ID,
				m.Items, m.Warns)
		}
		if !m.SilentSince.IsZero() {
			add("silent-member", "%s is silent since %s: its health check has run out, and "+
				"its session has not; its items (%d) stay with it until that ends, and what "+
				"their work does is not known", m.ID, utcText(m.SilentSince), m.Items)
		}
	}
}

// trouble is the problem of items that are in the same state for the same reason.
func trouble(state ItemState, text string, n int, items []ItemStatus, why string) Problem {
	p := Problem{Kind: string(state), Count: n, Until: items[0].Until}
	for _, i := range items[:min(3, len(items))] {
		p.Items = append(p.Items, i.ID)
	}
	names := strings.Join(p.Items, ", ")
	if n > len(p.Items) {
		names += ", …"
	}
	if why == "" {
		p.Text = text + ": " + names
		return p
	}
	p.Text = fmt.Sprintf("%s (%s): %s", text, names, why)
	if !p.Until.IsZero() {
		p.Text += ", until " + utcText(p.Until) + " at the latest"
	}
	return p
}

// plural is a number of things.
func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
