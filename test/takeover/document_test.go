package takeover_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The documents that show what was measured, and the block in each of them, between two marks.
// `make takeover` writes both.
const (
	document = "../../docs/takeover.md"
	readme   = "../../README.md"
	begins   = "<!-- make takeover writes what follows -->\n"
	ends     = "<!-- make takeover wrote that -->\n"
)

var update = flag.Bool("update", false, "write the table of README.md anew")

// block is the text of a document between the marks.
func block(path string) (before, within, after string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", "", err
	}
	before, rest, ok := strings.Cut(string(text), begins)
	within, after, closed := strings.Cut(rest, ends)
	if !ok || !closed {
		err = fmt.Errorf("%s has no %q, or no %q", path, begins, ends)
	}
	return before, within, after, err
}

// write replaces the block of a document.
func write(path, within string) error {
	before, _, after, err := block(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(before+begins+within+ends+after), 0o644)
}

// figure is one row of what docs/takeover.md has of an event.
type figure struct{ median, most, kept string }

// figures are all of them, by the event's name and who it is about.
func figures(measured string) map[string]map[string]figure {
	all := map[string]map[string]figure{}
	var event map[string]figure
	for line := range strings.Lines(measured) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "**When "); ok {
			event = map[string]figure{}
			all[strings.TrimSuffix(name, ":**")] = event
			continue
		}
		if line != "" && !strings.HasPrefix(line, "|") {
			event = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case event == nil || cells[0] == "who":
		case len(cells) == 5:
			event[cells[0]] = figure{median: cells[2], most: cells[4]}
		case len(cells) == 3:
			event[cells[0]] = figure{kept: cells[1]}
		}
	}
	return all
}

// The rows that the table in README.md is made of.
const (
	lockRow      = "`api.Lock`, defaults"
	leastRow     = "`api.Lock`, TTL 10 s, lock-delay 1 ms"
	memberRow    = "coordd, defaults"
	shortRow     = "coordd, `--lease 3s --check-ttl 1s`"
	execRow      = "coordd with `--exec`, defaults"
	electRow     = "an election's leader in Go, defaults"
	commandRow   = "`coordd elect`, defaults"
	shortElected = "an election's leader in Go, lease 3 s, check 1 s"
)

// The events, by their names in the tables.
const (
	killed = "the process is killed"
	hung   = "the process hangs (SIGSTOP, later SIGCONT)"
	lost   = "the machine is lost (its agent, too)"
	left   = "the agent leaves (SIGTERM)"
	away   = "the agent is killed and comes back"
)

// String is the median with its bound.
func (f figure) String() string {
	if f.median == "" || f.most == "" || f.most == "not promised" {
		return f.median
	}
	return fmt.Sprintf("%s (at most %s)", f.median, f.most)
}

// fate says what became of one that need not have lost anything.
func (f figure) fate(work string) string {
	var kept, of int
	switch n, _ := fmt.Sscanf(f.kept, "%d of %d", &kept, &of); {
	case n < 2:
		return ""
	case kept == of:
		return "loses nothing"
	case kept == 0:
		return "loses its " + work
	default:
		return fmt.Sprintf("loses its %s %d times of %d", work, of-kept, of)
	}
}

// summary is the table in README.md, short, of what docs/takeover.md has.
func summary(measured string) string {
	all := figures(measured)
	var b strings.Builder
	b.WriteString("\n| | `api.Lock`, its defaults | `api.Lock` at its minimum | coordd, defaults | " +
		"coordd, `--lease 3s --check-ttl 1s` |\n|---|---|---|---|---|\n")
	row := func(what, event, member, short string) {
		e := all[event]
		if e[member] == (figure{}) || short != "" && e[short] == (figure{}) {
			return // not measured yet
		}
		lock, least := e[lockRow], e[leastRow]
		if member == execRow {
			lock, least = figure{}, figure{}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", what, lock, least, e[member], e[short])
	}
	row("coordd is killed, with `--exec`", killed, execRow, "")
	row("a Go host is killed", killed, memberRow, shortRow)
	row("its machine is lost", lost, memberRow, shortRow)
	row("its Consul agent leaves", left, memberRow, shortRow)
	row("the leader of an election hangs", hung, electRow, shortElected)
	if e := all[away]; e != nil {
		fmt.Fprintf(&b, "| its Consul agent is killed, back in 1.5 s | %s | %s | %s | %s |\n",
			e[lockRow].fate("lock"), e[leastRow].fate("lock"), e[memberRow].fate("work"),
			e[shortRow].fate("work"))
	}
	b.WriteString("\n")
	return b.String()
}

// The table in README.md and those in docs/takeover.md are of one run of one command.
func TestTheTableOfTheReadmeIsThatOfTheDocument(t *testing.T) {
	_, measured, _, err := block(document)
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _, err := block(readme)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := write(readme, summary(measured)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := summary(measured); shown != want {
		t.Errorf("%s shows\n%s\nand %s says\n%s\n(go test ./test/takeover -update)", readme,
			shown, document, want)
	}
	for _, event := range []string{killed, hung, lost, left, away} {
		if len(figures(measured)[event]) == 0 {
			t.Errorf("%s says nothing of this: %s", document, event)
		}
	}
}
