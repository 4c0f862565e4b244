//go:build linux

package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// entry is one line that the work of an item wrote: "start" or "stop", item, token, process id,
// member, payload.
type entry struct {
	at      time.Time // when it was read: never earlier than it was written
	start   bool
	item    string
	token   uint64
	pid     int
	member  string
	payload string
}

func parseEntry(line string, at time.Time) (entry, error) {
	f := strings.SplitN(line, " ", 6)
	if len(f) < 5 || (f[0] != "start" && f[0] != "stop") {
		return entry{}, fmt.Errorf("a line that no work writes: %q", line)
	}
	token, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil || token == 0 {
		return entry{}, fmt.Errorf("a token that is none: %q", line)
	}
	e := entry{at: at, start: f[0] == "start", item: f[1], token: token, pid: atoi(f[3]),
		member: f[4]}
	if len(f) == 6 {
		e.payload = f[5]
	}
	return e, nil
}

// ledger checks the lines as they come.
type ledger struct {
	entries  []entry
	running  map[string]entry // the start of each item that runs
	last     map[string]entry // the last start of each item
	payloads map[string]string
	faults   []string
}

func newLedger() *ledger {
	return &ledger{running: map[string]entry{}, last: map[string]entry{},
		payloads: map[string]string{}}
}

func (l *ledger) enter(e entry) {
	fault := func(format string, args ...any) {
		l.faults = append(l.faults, fmt.Sprintf(format, args...)+fmt.Sprintf(" (line %d)",
			len(l.entries)+1))
	}
	was, runs := l.running[e.item]
	if !e.start {
		switch {
		case runs && was.pid == e.pid:
			delete(l.running, e.item)
		case runs:
			fault("item %s: process %d of %s stops, and %d of %s runs", e.item, e.pid, e.member,
				was.pid, was.member)
		default:
			fault("item %s: process %d of %s stops twice", e.item, e.pid, e.member)
		}
		l.entries = append(l.entries, e)
		return
	}
	if runs {
		fault("item %s runs twice: at %s (token %d, process %d) and at %s (token %d, process %d)",
			e.item, was.member, was.token, was.pid, e.member, e.token, e.pid)
	}
	// Work that is stopped with the lease and goes on when the session turns out to have lived has
	// the same grant.
	if before, ok := l.last[e.item]; ok && (e.token < before.token ||
		(e.token == before.token && e.member != before.member)) {
		fault("item %s: token %d of %s after token %d of %s", e.item, e.token, e.member,
			before.token, before.member)
	}
	if want, known := l.payloads[e.item]; known && e.payload != want {
		fault("item %s has payload %q, not %q", e.item, e.payload, want)
	}
	l.running[e.item], l.last[e.item] = e, e
	l.entries = append(l.entries, e)
}

// of lists the running items of a member.
func (l *ledger) of(member string) []string {
	var items []string
	for item, e := range l.running {
		if e.member == member {
			items = append(items, item)
		}
	}
	slices.Sort(items)
	return items
}

// story is what has happened since a mark.
type story []entry

func (s story) starts() story {
	return slices.DeleteFunc(slices.Clone(s), func(e entry) bool { return !e.start })
}
func (s story) stops() story {
	return slices.DeleteFunc(slices.Clone(s), func(e entry) bool { return e.start })
}

// items are sorted, with those that come more than once.
func (s story) items() []string {
	var items []string
	for _, e := range s {
		items = append(items, e.item)
	}
	slices.Sort(items)
	return items
}

func (s story) members() []string {
	m := map[string]bool{}
	for _, e := range s {
		m[e.member] = true
	}
	return slices.Sorted(maps.Keys(m))
}

// gaps are the times between the stop and the next start of each item, sorted.
func (s story) gaps() []time.Duration {
	var gaps []time.Duration
	stopped := map[string]time.Time{}
	for _, e := range s {
		if !e.start {
			stopped[e.item] = e.at
		} else if at, ok := stopped[e.item]; ok {
			gaps = append(gaps, e.at.Sub(at))
		}
	}
	slices.Sort(gaps)
	return gaps
}

func TestTheCheckerFindsWhatItIsThereFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, lines, fault string }{
		{"nothing wrong",
			"start a 5 100 n1 pa|stop a 5 100 n1|start a 6 101 n2 pa|start b 5 102 n1", ""},
		{"the lease ended and the session lived",
			"start a 5 100 n1 pa|stop a 5 100 n1|start a 5 101 n1 pa", ""},
		{"two members", "start a 5 100 n1 pa|start a 6 101 n2 pa|stop a 5 100 n1", "runs twice"},
		{"one member twice", "start a 5 100 n1 pa|start a 5 101 n1 pa", "runs twice"},
		{"token falls", "start a 5 100 n1 pa|stop a 5 100 n1|start a 4 101 n2 pa",
			"token 4 of n2 after token 5"},
		{"token stays with another member",
			"start a 5 100 n1 pa|stop a 5 100 n1|start a 5 101 n2 pa",
			"token 5 of n2 after token 5"},
		{"another's stop", "start a 5 100 n1 pa|stop a 5 101 n1", "stops, and 100 of n1 runs"},
		{"a second stop", "start a 5 100 n1 pa|stop a 5 100 n1|stop a 5 100 n1", "stops twice"},
		{"wrong payload", "start a 5 100 n1 pb", "payload"},
	} {
		l := newLedger()
		l.payloads["a"] = "pa"
		for line := range strings.SplitSeq(c.lines, "|") {
			e, err := parseEntry(line, time.Time{})
			must(t, err)
			l.enter(e)
		}
		if got := strings.Join(l.faults, "\n"); (c.fault == "") != (got == "") ||
			!strings.Contains(got, c.fault) {
			t.Errorf("%s: the checker says %q, not %q", c.name, got, c.fault)
		}
	}
	for _, line := range []string{"", "start a 5 100", "begin a 5 100 n1", "start a x 100 n1",
		"start a 0 100 n1"} {
		if e, err := parseEntry(line, time.Time{}); err == nil {
			t.Errorf("%q is taken for %+v", line, e)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// atoi returns -1 for what is no number.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
