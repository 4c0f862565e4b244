package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/printable"
)

// hostile are texts that a terminal obeys, or that forge a line of a table.
var hostile = []string{
	"x\nn9  alive, leads  7", "x\r\x1b[2K", "\x1b]52;c;cm0gLXJmIH4=\x07", "\u009b31m",
	"\u202egnp.exe", "x\ty", "\x00", "\xff", "\x7f", strings.Repeat("y", 400_000),
}

// plainLines makes sure that what was printed is lines, each of which prints as it stands.
func plainLines(t *testing.T, what string, out []byte, lines int) {
	t.Helper()
	if n := bytes.Count(out, []byte("\n")); n != lines {
		t.Errorf("%s: %d lines, not %d: %.300q", what, n, lines, out)
	}
	if i := bytes.IndexFunc(out, func(r rune) bool {
		return printable.Hidden(r) && r != '\n'
	}); i >= 0 {
		t.Errorf("%s: it holds %q", what, out[max(0, i-5):min(len(out), i+10)])
	}
	if len(out) > 20_000 {
		t.Errorf("%s: %d bytes", what, len(out))
	}
}

// statusOf is a status that is full of one text.
func statusOf(x string) operator.Status {
	return operator.Status{
		Service: x, Leader: &operator.StatusLeader{ID: x, Epoch: 7}, Drained: []string{x},
		Unreadable: []string{x}, Brake: x,
		Orders: []operator.StatusOrder{{Kind: "freeze", By: x}, {Kind: "drain", Member: x, By: x}},
		Members: []operator.StatusMember{{ID: x, Address: x, Status: x, Zone: x, Version: x,
			WorkVersion: x, Drained: true}},
		Absent: []operator.StatusMember{{ID: x, Status: "gone"}},
	}
}

func TestTablesShowNothingThatATerminalObeys(t *testing.T) {
	for _, x := range hostile {
		s := statusOf(x)
		shows := func(what string, lines int, show func(w io.Writer) error) {
			t.Helper()
			var b bytes.Buffer
			must(t, show(&b))
			plainLines(t, what, b.Bytes(), lines)
		}
		shows("status", 11, func(w io.Writer) error { return printStatus(w, s, true) })
		who := election.Candidate{ID: x, Name: x, Address: x}
		shows("elect --status", 5, func(w io.Writer) error {
			return printElection(w, electView{Election: x, Leader: &who,
				Candidates: []election.Candidate{who}})
		})
		item := operator.ItemStatus{ID: x, Member: x, Why: x, Pinned: x, LastExit: x}
		shows("items", 2, func(w io.Writer) error {
			return printItems(w, []operator.ItemStatus{item}, true, time.Now())
		})
		for _, kind := range []string{"granted", "lost", "quarantined", "another"} {
			line := eventText(operator.Event{Kind: kind, Items: []string{x}, From: x, To: x, Why: x,
				By: x})
			plainLines(t, "event", []byte(line+"\n"), 1)
		}
		if len(x) > 1000 {
			continue // JSON is whole
		}
		var b bytes.Buffer
		must(t, printJSON(&b, s.Unreadable))
		plainLines(t, "JSON", b.Bytes(), 3)
		var back []string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || back[0] != strings.ToValidUTF8(x,
			"\ufffd") {
			t.Errorf("%q came back as %q, %v", x, back, err)
		}
	}
	for _, x := range []string{"device-1", "größe", "10.0.0.1:80", `say "x"`, "a b", "漢字"} {
		if safe(x) != x {
			t.Errorf("%q is shown as %s", x, safe(x))
		}
	}
}

func TestColoursChangeNoLetter(t *testing.T) {
	var b bytes.Buffer
	must(t, printStatus(&b, statusOf("größe"), true))
	must(t, printItems(&b, []operator.ItemStatus{{ID: "a", State: operator.ItemLooping}}, false,
		time.Now()))
	painted := coloured(b.String())
	if n := strings.Count(painted, "\x1b["); n < 8 {
		t.Errorf("%d colours in\n%s", n, painted)
	}
	for _, c := range append(lineColours[:len(lineColours):len(lineColours)],
		lineColours[0]) {
		painted = strings.ReplaceAll(painted, c.colour, "")
	}
	if painted = strings.ReplaceAll(painted, "\x1b[0m", ""); painted != b.String() {
		t.Errorf("%q, want %q", painted, b.String())
	}
}

// What each kind of event says, with all of its parts and with as few as there may be.
func TestEventsAreSaidInPlainWords(t *testing.T) {
	for kind := range eventTexts {
		kind, why, _ := strings.Cut(kind, "/")
		full := eventText(operator.Event{Kind: kind, Items: []string{"i1"}, From: "m1", To: "m2",
			Why: why, By: "ann", Holds: 2, Wait: 9000})
		bare := eventText(operator.Event{Kind: kind, Items: []string{"i1"}, From: "m1", To: "m2"})
		for _, text := range []string{full, bare} {
			if strings.ContainsAny(text, "{}[]") || strings.Contains(text, "  ") {
				t.Errorf("%s: %q", kind, text)
			}
		}
	}
	for want, e := range map[string]operator.Event{
		"i1, i2 -> m2: nobody had it": {Kind: "granted", Items: []string{"i1", "i2"}, To: "m2",
			Why: "new"},
		"4 items (i1, i2, i3, …) m1 -> m2: m1 was lost": {Kind: "taken-over",
			Items: []string{"i1", "i2", "i3", "i4"}, From: "m1", To: "m2", Why: "lost"},
		"m1 was lost with 1 item, which wait for it for up to 8.5s": {Kind: "lost", From: "m1",
			Holds: 1, Wait: 8500},
		"m1 was killed, and what it ran has ended": {Kind: "lost", From: "m1",
			Why: "unannounced"},
		"m1 is drained by an order of ann@desk": {Kind: "drained", From: "m1", By: "ann@desk"},
	} {
		if got := eventText(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
