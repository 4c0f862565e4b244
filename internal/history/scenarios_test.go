package history_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
)

var update = flag.Bool("update", false, "write the judgements in testdata anew")

// Each file of testdata holds scenarios of one subject, separated by empty lines:
//
//	== NAME
//	# why the judgement has to be what it is
//	the history, with times in seconds
//	----, ---- skew DURATION, or ---- report
//	the judgement; for "report" the whole text of the report
//
// A scenario may be judged several times, each time behind a line of dashes of its own.
var scenarioFiles = []string{"config", "dead", "keys", "leaders", "settle", "work"}

// TestScenarios judges every scenario. With -update it writes the judgements anew, and the
// difference is to be read before it is committed.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(path), ".txt")
	}
	if !slices.Equal(paths, scenarioFiles) {
		t.Errorf("testdata has the files %v, want %v", paths, scenarioFiles)
	}
	for _, name := range scenarioFiles {
		path := filepath.Join("testdata", name+".txt")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		head, blocks, _ := strings.Cut(strings.TrimSpace(string(text)), "\n\n")
		again := bytes.NewBufferString(head + "\n")
		names := map[string]bool{}
		for block := range strings.SplitSeq(blocks, "\n\n") {
			title, _, _ := strings.Cut(block, "\n")
			if names[title] {
				t.Errorf("%s: two scenarios are named %q", path, title)
			}
			names[title] = true
			now := block + "\n" // of those that -run leaves out
			t.Run(name+"/"+strings.TrimPrefix(title, "== "), func(t *testing.T) {
				now = judgeScenario(t, block)
			})
			again.WriteString("\n" + now)
		}
		if *update && !t.Failed() {
			if err := os.WriteFile(path, again.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// judgeScenario compares the judgements of one scenario with those in its text, and returns the
// text with the judgements of now.
func judgeScenario(t *testing.T, block string) string {
	parts := strings.Split("\n"+block, "\n----")
	lines := strings.SplitN(strings.TrimPrefix(parts[0], "\n"), "\n", 3)
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "== ") ||
		!strings.HasPrefix(lines[1], "# ") || len(parts) < 2 {
		t.Fatalf("want a name, a reason, a history and a judgement:\n%s", block)
	}
	events := read(t, lines[2])
	again := parts[0][1:] + "\n"
	for _, part := range parts[1:] {
		how, want, _ := strings.Cut(part, "\n")
		got := judgement(t, events, how)
		if !*update && got != want {
			t.Errorf("----%s\n%s\nwant (go test ./internal/history -update writes it anew)\n%s",
				how, got, want)
		}
		again += "----" + how + "\n" + got + "\n"
	}
	return again
}

// judgement is what the checker says of a history; how is the rest of a line of dashes.
func judgement(t *testing.T, events []history.Event, how string) string {
	var o history.Options
	var err error
	if skew, ok := strings.CutPrefix(how, " skew "); ok {
		o.Skew, err = time.ParseDuration(skew)
	}
	r := history.Check(events, o)
	switch {
	case err != nil || o.Skew == 0 && how != "" && how != " report":
		t.Fatalf("behind the dashes: %q", how)
	case how == " report":
		return r.String()
	}
	var says []string
	for _, b := range r.Breaches {
		if len(b.Stretch) == 0 {
			t.Errorf("no lines show the breach %v", b)
		}
		says = append(says, b.Rule+": "+b.Text)
	}
	if len(says) == 0 {
		says = append(says, "no breach")
	}
	if r.Forgiven > 0 {
		says = append(says, fmt.Sprintf("%d overlaps after Consul had lost writes", r.Forgiven))
	}
	if r.Fenced > 0 {
		says = append(says, fmt.Sprintf("%d overlaps after a thaw", r.Fenced))
	}
	return strings.Join(says, "\n")
}

// read reads a history with times in seconds.
func read(t *testing.T, text string) []history.Event {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		at, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		d, err := time.ParseDuration(at + "s")
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(time.Unix(0, 0).Add(d).UTC().Format(time.RFC3339Nano) + " " + rest + "\n")
	}
	events, err := history.Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return events
}
