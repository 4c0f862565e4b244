package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/asynclog"
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

func TestTablesShowNothingThatATerminalObeys(t *testing.T) {
	for _, x := range hostile {
		s := actors.Status{
			Service: x, Leader: &actors.StatusLeader{ID: x, Epoch: 7}, Drained: []string{x},
			Strange: []string{x},
			Orders: []actors.StatusOrder{{Kind: "freeze", By: x}, {Kind: "drain", Member: x,
				By: x}},
			Members: []actors.StatusMember{{ID: x, Address: x, Status: x, Zone: x, Version: x,
				WorkVersion: x}},
			Absent: []actors.StatusMember{{ID: x, Status: "gone"}},
		}
		var b bytes.Buffer
		must(t, printStatus(&b, s))
		plainLines(t, "status", b.Bytes(), 10)

		b.Reset()
		must(t, printMembers(&b, s, true))
		plainLines(t, "members", b.Bytes(), 3)

		b.Reset()
		who := election.Candidate{ID: x, Name: x, Address: x}
		if err := printElection(&b, electView{Election: x, Leader: &who,
			Candidates: []election.Candidate{who}}); err != nil {
			t.Fatal(err)
		}
		plainLines(t, "elect --status", b.Bytes(), 5)

		if line := printable.Line("error: " + x); strings.ContainsFunc(line, printable.Hidden) {
			t.Errorf("an error: %.100q", line)
		}

		if len(x) > 1000 {
			continue // JSON is whole
		}
		b.Reset()
		must(t, printJSON(&b, s.Strange))
		plainLines(t, "JSON", b.Bytes(), 3)
		var back []string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || back[0] != strings.ToValidUTF8(x,
			"\ufffd") {
			t.Errorf("%q came back as %q, %v", x, back, err)
		}
	}
	for _, x := range []string{"device-1", "größe", "10.0.0.1:80", `say "x"`, "a b", "漢字"} {
		if foreign(x) != x {
			t.Errorf("%q is shown as %s", x, foreign(x))
		}
	}
}

func TestALogLineHasABound(t *testing.T) {
	long := strings.Repeat("y", 400_000)
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		lines := asynclog.NewWriter(&b)
		log, err := (&logFlags{format: format, level: "info"}).logger(lines)
		must(t, err)
		log.Info("x", "key", long, "err", errors.New(long), "stack", strings.Repeat("s", 10_000))
		lines.Flush(time.Minute)
		if n := b.Len(); n < 18_000 || n > 19_000 {
			t.Errorf("%s: %d bytes: %.300s", format, n, b.String())
		}
	}
}

func TestALogShowsNothingThatATerminalObeys(t *testing.T) {
	for _, x := range hostile {
		for _, format := range []string{"text", "json"} {
			var b bytes.Buffer
			lines := asynclog.NewWriter(&b)
			log, err := (&logFlags{format: format, level: "info"}).logger(lines)
			must(t, err)
			log.Info("x", "key", x, "err", errors.New(x))
			lines.Flush(time.Minute)
			plainLines(t, format, b.Bytes(), 1)
		}
	}
}
