package operator

import (
	"cmp"
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

// problems says what is wrong: nobody leads, items run nowhere or loop. What is a moment in the
// life of every item, that it starts or moves, is no problem.
func problems(s Status, items []ItemStatus, now time.Time) (all []Problem) {
	if s.Leader == nil {
		text := "nobody leads: no member is registered"
		if n := len(s.Members); n > 0 {
			text = fmt.Sprintf("nobody leads, of %s", plural(n, "member"))
		}
		all = append(all, Problem{Kind: "no-leader", Text: text})
	}
	groups := map[group][]ItemStatus{}
	for _, i := range items {
		if g, wrong := groupOf(i, now); wrong {
			groups[g] = append(groups[g], i)
		}
	}
	order := []ItemState{ItemLooping, ItemQuarantined, ItemWaiting, ItemFree, ItemStarting}
	sorted := make([]group, 0, len(groups))
	for g := range groups {
		sorted = append(sorted, g)
	}
	slices.SortFunc(sorted, func(x, y group) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.state), slices.Index(order, y.state)),
			cmp.Compare(x.cause, y.cause), strings.Compare(x.about, y.about),
			strings.Compare(x.to, y.to))
	})
	for _, g := range sorted {
		n := len(groups[g])
		if g.state == ItemLooping || g.state == ItemQuarantined {
			n = max(n, s.Work.States[g.state]) // some may not be named
		}
		all = append(all, g.problem(groups[g], n))
	}
	for _, m := range s.Members {
		if n := m.FailedItems; n >= protocol.SuspectAfter {
			all = append(all, Problem{Kind: "failing-member", Text: fmt.Sprintf(
				"work fails at %s: %s moved elsewhere, and it gets no more before it is started "+
					"anew", m.ID, plural(n, "item"))})
		}
	}
	for _, m := range s.Members {
		if !m.SilentSince.IsZero() {
			all = append(all, Problem{Kind: "silent-member", Text: fmt.Sprintf(
				"%s is silent since %s: its health check has run out, and its session has not; "+
					"its items (%d) stay with it until that ends, and what their work does is "+
					"not known", m.ID, utcText(m.SilentSince), m.Items)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Refused)) {
		all = append(all, Problem{Kind: "refused-order", Text: fmt.Sprintf(
			"Consul refuses what the leader writes about %s, which it tries every 30 s: %s", key,
			s.Refused[key])})
	}
	if s.Brake != "" && !slices.ContainsFunc(sorted, func(g group) bool {
		return g.cause == CauseBrake
	}) {
		all = append(all, Problem{Kind: "brake", Text: "the leader holds back: " + s.Brake})
	}
	return all
}

// group is what items have in common that are in the same trouble.
type group struct {
	state ItemState
	cause Cause
	about string // a member, if it is one's
	to    string // the member that they are pinned to, if that is the cause
}

func groupOf(i ItemStatus, now time.Time) (g group, wrong bool) {
	g = group{state: i.State}
	switch i.State {
	case ItemLooping, ItemQuarantined:
	case ItemFree:
		g.cause, g.about = i.Cause, i.Pinned
	case ItemWaiting:
		g.cause, g.about = i.Cause, i.Member
		if g.cause == CausePinned {
			g.to = i.Pinned
		}
	case ItemStarting:
		return g, !i.Since.IsZero() && now.Sub(i.Since) > slowStart
	default:
		return g, false
	}
	return g, !i.Removed
}

func (g group) problem(items []ItemStatus, n int) Problem {
	p := Problem{Kind: string(g.state), Count: n}
	for _, i := range items[:min(3, len(items))] {
		p.Items = append(p.Items, i.ID)
	}
	one := func(singular, plural string) string {
		if n == 1 {
			return singular
		}
		return plural
	}
	names := strings.Join(p.Items, ", ")
	if n > len(p.Items) {
		names += ", …"
	}
	text := plural(n, "item") + " "
	switch g.state {
	case ItemLooping:
		text += one("loops", "loop") + ": " + names
	case ItemQuarantined:
		text += one("is", "are") + " quarantined: " + names
	case ItemStarting:
		text += one("has", "have") + " been starting for more than a minute: " + names
	case ItemWaiting:
		text += one("waits", "wait") + " (" + names + "): " + items[0].Why
		if until := items[0].Until; !until.IsZero() {
			text += ", until " + utcText(until) + " at the latest"
			p.Until = until
		}
	case ItemFree:
		text += one("is", "are") + " free (" + names + "): " + items[0].Why
	}
	p.Text = text
	return p
}

// plural is a number of things.
func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
