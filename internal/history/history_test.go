package history_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
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
	if len(r.Breaches) != 0 || len(r.Unjudged) != 0 || r.Starts != 2 || r.Leaderships != 2 || r.Settled != 0 {
		t.Errorf("%+v\n%v", r, r)
	}
}

// Each of these is rejected, by the rule and in the words that it names.
func TestBrokenHistoriesAreRejected(t *testing.T) {
	for name, c := range map[string]struct{ rule, says, text string }{
		"an acknowledged config value that Consul never took": {"I4", "Consul never took it", `
			0 boot a#1
			1 ask a#1 config_data/k v1
			1 set - 5 0 config_data/other x
			2 told a#1 config_data/k v1`},
		"a config value that was acknowledged before Consul had it": {"I4", "Consul never took it", `
			0 set - 1 0 workload/w1 x
			1 ask a#1 config_data/k v1
			2 told a#1 config_data/k v1
			3 set a#1 5 0 config_data/k v1`},
		"a config value that is applied twice": {"I4", "a second time", `
			1 ask a#1 config_data/k v1
			2 set a#1 5 0 config_data/k v1
			3 set a#1 6 0 config_data/k v1`},
		"a config value that is applied again by the next process": {"I4", "a second time", `
			1 ask a#1 config_data/k v1
			2 set a#1 5 0 config_data/k v1
			3 end a#1
			4 boot a#2
			5 set a#2 6 0 config_data/k v1`},
		"a config write that is applied after it was refused": {"I4", "after it was refused", `
			1 ask a#1 config_data/k v1
			2 refused a#1 config_data/k v1
			3 set a#1 6 0 config_data/k v1`},
		"a config write that is refused after it was applied": {"I4", "had taken it", `
			1 ask a#1 config_data/k v1
			2 set a#1 6 0 config_data/k v1
			3 refused a#1 config_data/k v1`},
		"a config write that is acknowledged and refused": {"I4", "acknowledged and refused", `
			1 ask a#1 config_data/k v1
			2 refused a#1 config_data/k v1
			3 set a#1 6 0 config_data/k v1
			4 told a#1 config_data/k v1`},
		"config writes of one process out of order": {"I4", "asked for later", `
			1 ask a#1 config_data/k v1
			2 ask a#1 config_data/k v2
			3 set a#1 6 0 config_data/k v2
			4 set a#1 7 0 config_data/k v1`},
		"a logged config write that is lost": {"I4", "neither applied nor reported", `
			0 set - 1 0 workload/w1 x
			1 ask a#1 config_data/k v1
			2 logged a#1 config_data/k v1
			3 end a#1
			60 close -`},
		"a logged config write that replaces what came meanwhile": {"I4", "without a word", `
			1 ask a#1 config_data/k v1
			2 logged a#1 config_data/k v1
			3 set b#1 6 0 config_data/k theirs
			4 set a#2 7 0 config_data/k v1`},
		"a logged config write that brings back what was deleted meanwhile": {"I4", "without a word", `
			0 set - 5 0 config_data/k x
			1 ask a#1 config_data/k v1
			2 logged a#1 config_data/k v1
			3 del - 6 0 config_data/k
			4 set a#1 7 0 config_data/k v1`},
		"a process that does not read its own config write": {"I4", "after its own write at 7", `
			1 ask a#1 config_data/k v1
			2 set b#1 6 0 config_data/k old
			3 set a#1 7 0 config_data/k v1
			4 told a#1 config_data/k v1
			5 saw a#1 6 config_data/k old`},
		"a process that does not find its own config write": {"I4", "after its own write at 7", `
			1 ask a#1 config_data/k v1
			3 set a#1 7 0 config_data/k v1
			4 told a#1 config_data/k v1
			5 saw a#1 0 config_data/k -`},
		"a value that names two writes": {"I4", "names each write by its value", `
			1 ask a#1 config_data/k v1
			2 ask b#1 config_data/k v1`},
		"two at work": {"I1", "both work on w1 for 1s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 start b#1 w1 6
			3 stop a#1 w1 5
			4 stop b#1 w1 6`},
		"two runs of one member": {"I1", "both work on w1", `
			0 boot a#1
			0 boot a#2
			1 start a#1 w1 5
			2 start a#2 w1 6
			3 stop a#1 w1 5`},
		"a third beside two that follow each other": {"I1", "c#1 (token 7)", `
			0 boot a#1
			0 boot b#1
			0 boot c#1
			1 start a#1 w1 5
			9 stop a#1 w1 5
			9 start b#1 w1 6
			12 start c#1 w1 7
			13 stop b#1 w1 6`},
		"started twice": {"I1", "starts w1 twice", `
			0 boot a#1
			1 start a#1 w1 5
			2 start a#1 w1 5`},
		"starts when dead": {"I1", "after its end", `
			0 boot a#1
			1 end a#1
			2 start a#1 w1 5`},
		"stops what it had not": {"I1", "had not started", `
			0 boot a#1
			1 stop a#1 w1 5`},
		"work until the last line of a process that broke off": {"I1", "both work on w1 for 2s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 start b#1 w1 6
			4 alive a#1
			9 alive b#1`},
		"at work before and after a freeze": {"I1", "both work on w1", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 start b#1 w1 6
			3 freeze a#1
			8 thaw a#1
			8 stop a#1 w1 5`},
		"at work long after a thaw": {"I1", "both work on w1 for 2s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 freeze a#1
			4 start b#1 w1 6
			8 thaw a#1
			10 stop a#1 w1 5
			12 stop b#1 w1 6`},
		"after a thaw with a token that fences nothing": {"I1", "both work on w1", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 7
			2 freeze a#1
			4 start b#1 w1 6
			8 thaw a#1
			8 step a#1 w1 7
			8 stop a#1 w1 7
			9 stop b#1 w1 6`},
		"the token falls": {"I2", "with token 4, after a#1 had started it with 5", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 stop a#1 w1 5
			3 start b#1 w1 4`},
		"the token stays when hands change": {"I2", "with token 5, after a#1", `
			0 boot a#1
			0 boot a#2
			1 start a#1 w1 5
			2 end a#1
			3 start a#2 w1 5`},
		"one epoch, two leaders": {"I2", "lead with the same epoch 5", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 unlead a#1 5
			3 lead b#1 5`},
		"two lead at once": {"I2", "has not stopped leading until 3s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			5 unlead a#1 5`},
		"a deposed leader's write": {"I2", "write of epoch 1 at index 3, when the leader key was at 2", `
			0 boot a#1
			1 set a#1 1 0 leader a
			2 set b#1 2 0 leader b
			3 set a#1 3 1 assignments/a/w1 own`},
		"a write of nobody's epoch": {"I2", "was deposed", `
			0 boot a#1
			1 set a#1 1 0 leader a
			2 del - 2 0 leader
			3 set a#1 3 1 assignments/a/w1 own`},
		"two keys": {"I2", "w1 has 2 keys at index 3: at a and b", `
			1 set a#1 1 0 leader a
			2 set a#1 2 1 assignments/a/w1 own
			3 set a#1 3 1 assignments/b/w1 own`},
		"two keys, at the very end": {"I2", "w1 has 2 keys at index 2", `
			1 set - 1 0 assignments/m1/w1 own
			2 set - 2 0 assignments/m10/w1 own
			2 set - 2 0 assignments/m10/w2 own`},
		"no owner": {"I3", "w2 has no owner", `
			0 set - 1 0 workload/w1 x
			0 set - 2 0 workload/w2 x
			0 boot a#1
			1 start a#1 w1 5
			2 calm - 5s -1
			9 alive a#1`},
		"an owner that is frozen": {"I3", "w1 has no owner", `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			1 start a#1 w1 5
			2 calm - 5s -1
			3 freeze a#1
			9 close -`},
		"an item that nobody wants": {"I3", "w2 is worked on and not in the workload", `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			1 start a#1 w1 5
			1 start a#1 w2 5
			2 calm - 5s -1
			9 alive a#1`},
		"uneven": {"I3", "the loads are uneven", `
			0 set - 1 0 workload/w1 x
			0 set - 2 0 workload/w2 x
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			1 start a#1 w2 5
			2 calm - 5s 1
			9 alive a#1`},
		"a member deletes work": {"I4", "a#1 deletes w1 from the workload", `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			1 del a#1 2 0 workload/w1`},
		"an acknowledged value is gone": {"I4", `"two" was acknowledged as the value of /cfg, which is "one" at the end`, `
			0 try u /cfg one
			0 set u 1 0 /cfg one
			0 acked u /cfg one
			1 try u /cfg two
			1 acked u /cfg two`},
		"an acknowledged key is gone": {"I4", "was acknowledged", `
			0 try u /cfg one
			0 set u 1 0 /cfg one
			0 acked u /cfg one
			1 del - 2 0 /cfg`},
	} {
		r := check(t, c.text)
		if len(r.Breaches) == 0 {
			t.Errorf("%s: not rejected: %v", name, r)
			continue
		}
		if !slices.ContainsFunc(r.Breaches, func(b history.Breach) bool {
			return b.Rule == c.rule && strings.Contains(b.Text, c.says) && len(b.Stretch) > 0
		}) {
			t.Errorf("%s: %v\nwant %s: %s", name, r, c.rule, c.says)
		}
	}
}

// And these are not, although they look like it.
func TestWhatIsNoBreach(t *testing.T) {
	for name, text := range map[string]string{
		"at work while the other is frozen": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 freeze a#1
			4 start b#1 w1 6
			8 thaw a#1
			8 stop a#1 w1 5
			9 stop b#1 w1 6`,
		"a process that breaks off": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 alive a#1
			30 start b#1 w1 6`,
		"the leader's lock was taken away": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 early a#1
			3 lead b#1 6
			5 unlead a#1 5`,
		"a new epoch of the same leader": `
			0 boot a#1
			1 lead a#1 5
			2 lead a#1 6
			3 unlead a#1 6`,
		"the work fails and is started again": `
			0 boot a#1
			1 start a#1 w1 5
			2 stop a#1 w1 5
			3 start a#1 w1 5`,
		"a key moves in one write": `
			1 set a#1 1 0 leader a
			2 set a#1 2 1 assignments/a/w1 own
			3 set a#1 3 1 assignments/b/w1 own
			3 del a#1 3 1 assignments/a/w1`,
		"an unacknowledged value was written later": `
			0 try u /cfg one
			0 set u 1 0 /cfg one
			0 acked u /cfg one
			1 try u /cfg two
			2 set u 2 0 /cfg two`,
		"tokens after Consul came back empty": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 500
			2 stop a#1 w1 500
			3 restored - 10s
			9 start b#1 w1 5`,
	} {
		if r := check(t, text); len(r.Breaches) != 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestOverlapsThatOnlyATokenFencesAreCounted(t *testing.T) {
	r := check(t, `
		0 boot a#1
		0 boot b#1
		1 start a#1 w1 5
		2 freeze a#1
		4 start b#1 w1 6
		8 thaw a#1
		8 step a#1 w1 5
		8.5 stop a#1 w1 5
		9 stop b#1 w1 6`)
	if r.Fenced != 1 || len(r.Breaches) != 0 || !strings.Contains(r.String(), "1 overlaps after a thaw") {
		t.Errorf("%v", r)
	}
}

func TestOverlapsAfterConsulLostWritesAreCounted(t *testing.T) {
	r := check(t, `
		0 boot a#1
		0 boot b#1
		1 start a#1 w1 5
		2 restored - 10s
		4 start b#1 w1 4
		8 stop a#1 w1 5`)
	if r.Forgiven != 1 || len(r.Breaches) != 0 {
		t.Errorf("%v", r)
	}
	r = check(t, `
		0 boot a#1
		0 boot b#1
		1 start a#1 w1 5
		2 restored - 1s
		4 start b#1 w1 6
		8 stop a#1 w1 5`)
	if len(r.Breaches) != 1 {
		t.Errorf("an overlap that began after the amnesty: %v", r)
	}
}

func TestSkewForgivesWhatTheClocksMayHaveMadeUp(t *testing.T) {
	events := read(t, `
		0 boot a#1
		0 boot b#1
		1 start a#1 w1 5
		2 start b#1 w1 6
		2.05 stop a#1 w1 5`)
	for skew, want := range map[time.Duration]int{0: 1, 49 * time.Millisecond: 1, 50 * time.Millisecond: 0} {
		if r := history.Check(events, history.Options{Skew: skew}); len(r.Breaches) != want {
			t.Errorf("skew %v: %v", skew, r)
		}
	}
}

func TestWhatCannotBeJudgedIsSaid(t *testing.T) {
	r := check(t, `
		0 boot a#1
		1 start a#1 w1 5`)
	if s := r.String(); !strings.Contains(s, "not judged: I3: no calm line") || !strings.Contains(s, "not judged: I2 and I4 of Consul's keys") {
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

func TestEveryLineReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-a-z %#/äö\n"]{0,6}`)
		verbs := []history.Verb{history.Boot, history.Start, history.Stop, history.Step, history.Lead, history.Set, history.Del, history.Try, history.Ask, history.Told, history.Logged, history.Refused, history.Saw, history.Restored, history.Calm, history.Close}
		e := history.Event{At: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(), Verb: rapid.SampledFrom(verbs).Draw(t, "verb")}
		e.Proc = "p" + text.Draw(t, "proc")
		switch e.Verb {
		case history.Start, history.Stop, history.Step:
			e.Item, e.Token = text.Draw(t, "item"), rapid.Uint64().Draw(t, "token")
		case history.Lead:
			e.Epoch = rapid.Uint64().Draw(t, "epoch")
		case history.Set:
			e.Index, e.Epoch, e.Key, e.Value = rapid.Uint64().Draw(t, "index"), 3, text.Draw(t, "key"), text.Draw(t, "value")
		case history.Saw:
			e.Index, e.Key, e.Value = rapid.Uint64().Draw(t, "index"), text.Draw(t, "key"), text.Draw(t, "value")
		case history.Try, history.Ask, history.Told, history.Logged, history.Refused:
			e.Key, e.Value = text.Draw(t, "key"), text.Draw(t, "value")
		case history.Calm:
			e.For, e.Spread = time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "for")), rapid.IntRange(-1, 9).Draw(t, "spread")
		}
		var b bytes.Buffer
		history.NewRecorder(&b).Add(e)
		got, err := history.Read(&b)
		if err != nil || len(got) != 1 || got[0] != e {
			t.Fatalf("%q: %+v, want %+v, %v", b.String(), got, e, err)
		}
	})
}

func TestConfigWritesThatWereHandledWellAreNoBreach(t *testing.T) {
	for name, text := range map[string]string{
		"acknowledged, read, and replaced by others": `
			1 ask a#1 config_data/k v1
			2 set a#1 7 0 config_data/k v1
			3 told a#1 config_data/k v1
			3 saw a#1 7 config_data/k v1
			4 ask b#1 config_data/k v2
			4 set b#1 8 0 config_data/k v2
			5 saw a#1 8 config_data/k v2
			6 del - 9 0 config_data/k
			7 saw a#1 0 config_data/k -`,
		"given up on, and applied all the same": `
			1 ask a#1 config_data/k v1
			9 set a#1 7 0 config_data/k v1
			60 close -`,
		"given up on, and never applied": `
			0 set - 1 0 workload/w1 x
			1 ask a#1 config_data/k v1
			60 close -`,
		"logged, and applied by the next process over its own": `
			1 ask a#1 config_data/k v1
			2 logged a#1 config_data/k v1
			3 ask a#1 config_data/k v2
			4 logged a#1 config_data/k v2
			9 set a#2 7 0 config_data/k v1
			9 set a#2 8 0 config_data/k v2
			60 close -`,
		"logged, and reported": `
			1 ask a#1 config_data/k v1
			2 logged a#1 config_data/k v1
			3 set b#1 7 0 config_data/k theirs
			60 close -
			61 refused a#2 config_data/k v1`,
		"acknowledged, and Consul has lost writes": `
			1 ask a#1 config_data/k v1
			2 set a#1 7 0 config_data/k v1
			2 ask a#1 config_data/j v2
			3 told a#1 config_data/k v1
			4 restored - 10s
			4 set - 3 0 config_data/k old
			5 saw a#1 3 config_data/k old
			6 set a#1 4 0 config_data/j v2
			60 close -`,
		"of a process's own file, in which nothing is known of Consul": `
			1 ask a#1 config_data/k v1
			3 told a#1 config_data/k v1`,
	} {
		if r := check(t, text); len(r.Breaches) > 0 {
			t.Errorf("%s:\n%v", name, r)
		}
	}
}

func TestLinesThatAreNoEventsAreRefusedWithTheirNumber(t *testing.T) {
	good := "2000-01-01T00:00:00Z boot a#1\n"
	for _, bad := range []string{"x\n", "2000-01-01T00:00:00Z dance a#1\n", "2000-01-01T00:00:00Z start a#1 w1\n", "2000-01-01T00:00:00Z start a#1 w1 five\n", "yesterday boot a#1\n", "2000-01-01T00:00:00Z boot -\n", "2000-01-01T00:00:00Z boot %zz\n"} {
		_, err := history.Read(strings.NewReader("# a comment\n" + good + bad))
		if !errors.Is(err, history.ErrFormat) || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestALineThatWasCutShortAtTheEndIsLeftOut(t *testing.T) {
	events, err := history.Read(strings.NewReader("2000-01-01T00:00:00Z boot a#1\n2000-01-01T00:00:01Z start a#1 w"))
	if err != nil || len(events) != 1 {
		t.Errorf("%v, %v", events, err)
	}
}

func TestMergePutsHistoriesInOrder(t *testing.T) {
	a, b := read(t, "1 boot a#1\n3 end a#1"), read(t, "0 boot b#1\n2 end b#1")
	var got []string
	for _, e := range history.Merge(a, b) {
		got = append(got, e.Proc+" "+string(e.Verb))
	}
	if s := strings.Join(got, ", "); s != "b#1 boot, a#1 boot, b#1 end, a#1 end" {
		t.Error(s)
	}
}

func TestAFailedWriteEndsTheRecordingAndIsKept(t *testing.T) {
	boom := errors.New("disk full")
	r := history.NewRecorder(writer(func([]byte) (int, error) { return 0, boom }))
	r.Add(history.Event{Verb: history.Close})
	r.Add(history.Event{Verb: history.Close})
	if !errors.Is(r.Err(), boom) {
		t.Error(r.Err())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// Histories from anywhere are judged, not crashed on.
func TestCheckJudgesAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		verbs := []history.Verb{history.Boot, history.Alive, history.End, history.Start, history.Stop, history.Step, history.Lead, history.Unlead, history.Freeze, history.Thaw, history.Early, history.Set, history.Del, history.Acked, history.Try, history.Ask, history.Told, history.Logged, history.Refused, history.Saw, history.Restored, history.Calm, history.Close}
		var events []history.Event
		at := time.Unix(0, 0)
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			at = at.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "dt")) * time.Second)
			events = append(events, history.Event{
				At: at, Verb: rapid.SampledFrom(verbs).Draw(t, "verb"), Proc: rapid.SampledFrom([]string{"", "a#1", "b#1"}).Draw(t, "proc"),
				Item: rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "item"), Token: rapid.Uint64Range(0, 3).Draw(t, "token"), Epoch: rapid.Uint64Range(0, 3).Draw(t, "epoch"),
				Index: rapid.Uint64Range(0, 3).Draw(t, "index"), Key: rapid.SampledFrom([]string{"leader", "workload/w1", "assignments/a/w1", "assignments/b/w1", "assignments/", "config_data/k", ""}).Draw(t, "key"),
				Value: "x", For: 2 * time.Second, Spread: 1,
			})
		}
		_ = history.Check(events, history.Options{}).String()
	})
}

func TestALineThatWasCutOffIsInNobodysWay(t *testing.T) {
	name := filepath.Join(t.TempDir(), "h")
	for _, written := range []string{
		"2000-01-01T00:00:01Z boot a%231\n2000-01-01T00:00:02Z start a%2", // the disk was full
		"2000-01-01T00:00:03Z boot a%232\n",
		"2000-01-01T00:00:04Z boot a%233\n2", // and once more
		"2000-01-01T00:00:05Z boot a%234\n",
	} {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := history.Mend(f); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(written); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := history.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	var procs []string
	for _, e := range events {
		procs = append(procs, e.Proc)
	}
	if want := []string{"a#1", "a#2", "a#3", "a#4"}; !slices.Equal(procs, want) {
		t.Errorf("read %v, want %v", procs, want)
	}
}
