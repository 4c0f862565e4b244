package history_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
	"pgregory.net/rapid"
)

// check judges a history given as text, with times as seconds.
func check(t *testing.T, text string) history.Report {
	t.Helper()
	return history.Check(read(t, text), history.Options{})
}

func read(t *testing.T, text string) []history.Event {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		at, rest, _ := strings.Cut(line, " ")
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

// broken is a history that breaks a rule, with words of the breach.
type broken struct{ rule, says, text string }

// rejected wants each history rejected, by the rule and in the words that it names.
func rejected(t *testing.T, histories map[string]broken) {
	t.Helper()
	for name, c := range histories {
		r := check(t, c.text)
		if !slices.ContainsFunc(r.Breaches, func(b history.Breach) bool {
			return b.Rule == c.rule && strings.Contains(b.Text, c.says) && len(b.Stretch) > 0
		}) {
			t.Errorf("%s: %v\nwant %s: %s", name, r, c.rule, c.says)
		}
	}
}

// accepted wants no breach found in histories that look like one.
func accepted(t *testing.T, histories map[string]string) {
	t.Helper()
	for name, text := range histories {
		if r := check(t, text); len(r.Breaches) != 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// whole is a history in which everything is as it should be.
const whole = `
0 set - 1 0 workload/w1 x
0 boot a#1
0 boot b#1
1 set a#1 2 0 leader a
1 lead a#1 2
2 set a#1 3 2 assignments/a/w1 own
2 start a#1 w1 3
5 set a#1 4 2 assignments/a/w1 rel
6 stop a#1 w1 3
6 del a#1 5 0 assignments/a/w1
7 set a#1 6 2 assignments/b/w1 own
7 start b#1 w1 6
8 unlead a#1 2
8 end a#1
9 set b#1 7 0 leader b
9 lead b#1 7
10 calm - 5s 1
20 close -
21 stop b#1 w1 6
`

func TestAWholeHistoryHasNoBreach(t *testing.T) {
	r := check(t, whole)
	if len(r.Breaches) != 0 || len(r.Unjudged) != 0 || r.Starts != 2 || r.Leaderships != 2 ||
		r.Settled != 0 {
		t.Errorf("%+v\n%v", r, r)
	}
}

func TestWhatCannotBeJudgedIsSaid(t *testing.T) {
	r := check(t, `
		0 boot a#1
		1 start a#1 w1 5`)
	if s := r.String(); !strings.Contains(s, "not judged: I3: no calm line") ||
		!strings.Contains(s, "not judged: I2 and I4 of Consul's keys") {
		t.Error(s)
	}
	r = check(t, strings.Split(whole, "20 close")[0])
	if s := r.String(); !strings.Contains(s, "ends before the bound") {
		t.Error(s)
	}
}

func TestTheStretchHoldsWhatMattersAndNothingElse(t *testing.T) {
	r := check(t, `
		0 boot a#1
		0 boot b#1
		0 boot c#1
		1 start a#1 w1 5
		1 start c#1 w2 5
		1.5 freeze c#1
		2 start b#1 w1 6
		2.5 start a#1 w3 6
		3 stop a#1 w1 5`)
	if len(r.Breaches) != 1 {
		t.Fatal(r)
	}
	var got []string
	for _, e := range r.Breaches[0].Stretch {
		got = append(got, string(e.Verb)+" "+e.Proc+" "+e.Item)
	}
	if s := strings.Join(got, ", "); s != "start a#1 w1, start b#1 w1, stop a#1 w1" {
		t.Error(s)
	}
}

// Histories from anywhere are judged, not crashed on.
func TestCheckJudgesAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		verbs := []history.Verb{history.Boot, history.Alive, history.End, history.Dead,
			history.Start, history.Stop, history.Step, history.Lead, history.Unlead, history.Freeze,
			history.Thaw, history.Early, history.Set, history.Del, history.Acked, history.Try,
			history.Ask, history.Told, history.Logged, history.Refused, history.Saw,
			history.Restored, history.Calm, history.Close}
		var events []history.Event
		at := time.Unix(0, 0)
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			at = at.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "dt")) * time.Second)
			events = append(events, history.Event{
				At: at, Verb: rapid.SampledFrom(verbs).Draw(t, "verb"),
				Proc:  rapid.SampledFrom([]string{"", "a#1", "b#1"}).Draw(t, "proc"),
				Item:  rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "item"),
				Token: rapid.Uint64Range(0, 3).Draw(t, "token"), Epoch: rapid.Uint64Range(0,
					3).Draw(t, "epoch"),
				Index: rapid.Uint64Range(0, 3).Draw(t, "index"),
				Key: rapid.SampledFrom([]string{"leader", "workload/w1", "assignments/a/w1",
					"assignments/b/w1", "assignments/", "config_data/k", ""}).Draw(t, "key"),
				Value: "x", For: 2 * time.Second, Spread: 1,
			})
		}
		_ = history.Check(events, history.Options{}).String()
	})
}
