package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
)

func TestBrokenHistoriesOfWorkAreRejected(t *testing.T) {
	rejected(t, map[string]broken{
		"two at work": {"I1", "both work on w1 for 1s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 start b#1 w1 6
			3 stop a#1 w1 5
			4 stop b#1 w1 6`},
		"two at work after a stand that two have told of": {"I1", "both work on w1 for 10s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 freeze a#1
			3 freeze a#1
			9 thaw a#1
			10 thaw a#1
			20 start b#1 w1 6
			30 stop a#1 w1 5
			31 stop b#1 w1 6`},
		"two at work before Consul loses writes": {"I1", "both work on w1 for 1s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 start b#1 w1 6
			3 stop a#1 w1 5
			4 stop b#1 w1 6
			5 restored - 10s`},
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
		"a step after a stop": {"I1", "a#1 works on w1 (token 5) after it had stopped", `
			0 boot a#1
			1 start a#1 w1 5
			2 stop a#1 w1 5
			3 step a#1 w1 5`},
		"a step without a start": {"I1", "a#1 works on w1 (token 5), which it has not started", `
			0 boot a#1
			1 start a#1 w2 5
			3 step a#1 w1 5`},
		"a step before the start": {"I1", "a#1 works on w1 (token 5), which it has not started", `
			0 boot a#1
			1 step a#1 w1 5
			3 start a#1 w1 5`},
		"a step with the token of before": {"I1",
			"a#1 works on w1 (token 5) after it had stopped", `
			0 boot a#1
			1 start a#1 w1 5
			2 stop a#1 w1 5
			3 start a#1 w1 7
			4 step a#1 w1 5`},
		"a step with a token to come": {"I1",
			"a#1 works on w1 (token 7), which it has not started", `
			0 boot a#1
			1 start a#1 w1 5
			2 step a#1 w1 7
			3 stop a#1 w1 5
			4 start a#1 w1 7`},
		"a step after the end of its process": {"I1", "a#1 works on w1 (token 5) after it " +
			"had stopped", `
			0 boot a#1
			1 start a#1 w1 5
			2 end a#1
			3 step a#1 w1 5`},
		"a stop with a token of something else": {"I1", "a#1 stops w1 (token 5), which it had " +
			"started with token 7", `
			0 boot a#1
			1 start a#1 w1 7
			2 stop a#1 w1 5`},
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
	})
}

func TestWhatIsNoBreachOfWork(t *testing.T) {
	accepted(t, map[string]string{
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
		"steps between a start and a stop, and at their very moments": `
			0 boot a#1
			1 start a#1 w1 5
			1 step a#1 w1 5
			2 step a#1 w1 5
			3 step a#1 w1 5
			3 stop a#1 w1 5
			4 start a#1 w1 5
			5 step a#1 w1 5
			6 end a#1`,
		"the work fails and is started again": `
			0 boot a#1
			1 start a#1 w1 5
			2 stop a#1 w1 5
			3 start a#1 w1 5`,
		"tokens after Consul came back empty": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 500
			2 stop a#1 w1 500
			3 restored - 10s
			9 start b#1 w1 5`,
	})
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
	if r.Fenced != 1 || len(r.Breaches) != 0 || !strings.Contains(r.String(),
		"1 overlaps after a thaw") {
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
	for skew, want := range map[time.Duration]int{0: 1, 49 * time.Millisecond: 1,
		50 * time.Millisecond: 0} {
		if r := history.Check(events, history.Options{Skew: skew}); len(r.Breaches) != want {
			t.Errorf("skew %v: %v", skew, r)
		}
	}
}

// A command and its coordd write with clocks of their own.
func TestSkewForgivesStepsJustOutsideOfTheirWork(t *testing.T) {
	for name, text := range map[string]string{
		"after": `
			0 boot a#1
			1 start a#1 w1 5
			2 stop a#1 w1 5
			2.05 step a#1 w1 5`,
		"before": `
			0 boot a#1
			1.95 step a#1 w1 5
			2 start a#1 w1 5`,
	} {
		for skew, want := range map[time.Duration]int{0: 1, 49 * time.Millisecond: 1,
			50 * time.Millisecond: 0} {
			if r := history.Check(read(t, text), history.Options{Skew: skew}); len(
				r.Breaches) != want {
				t.Errorf("%s, skew %v: %v", name, skew, r)
			}
		}
	}
}

// A command that fails again and again for a month writes this many.
func TestManyStartsOfOneItemAreJudgedInTime(t *testing.T) {
	var events []history.Event
	at := time.Unix(0, 0)
	for range 100_000 {
		events = append(events,
			history.Event{At: at, Verb: history.Start, Proc: "a#1", Item: "w1", Token: 5},
			history.Event{At: at.Add(time.Second), Verb: history.Stop, Proc: "a#1", Item: "w1",
				Token: 5})
		at = at.Add(10 * time.Second)
	}
	begin := time.Now()
	if r := history.Check(events, history.Options{}); len(r.Breaches) != 0 {
		t.Error(r)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}
