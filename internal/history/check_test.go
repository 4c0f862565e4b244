package history_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/internal/testkit"
)

// Histories from anywhere are judged, not crashed on.
func TestCheckJudgesAnyHistory(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		verbs := []history.Verb{history.Boot, history.Alive, history.End, history.Dead,
			history.Start, history.Stop, history.Ran, history.Step, history.Lead, history.Unlead,
			history.Freeze, history.Thaw, history.Early, history.Set, history.Del, history.Acked, history.Try,
			history.Ask, history.Told, history.Logged, history.Refused, history.Saw,
			history.Restored, history.Calm, history.Close}
		var events []history.Event
		at := time.Unix(0, 0)
		for range d.Few(40) {
			at = at.Add(time.Duration(d.IntN(4)) * time.Second)
			events = append(events, history.Event{
				At: at, Verb: testkit.Pick(d, verbs...),
				Proc: testkit.Pick(d, "", "a#1", "b#1"), Item: testkit.Pick(d, "w1", "w2"),
				Token: d.Uint64N(4), Epoch: d.Uint64N(4), Index: d.Uint64N(4),
				Key: testkit.Pick(d, "leader", "workload/w1", "assignments/a/w1",
					"assignments/b/w1", "assignments/", "config_data/k", ""),
				Value: "x", For: 2 * time.Second, Spread: 1,
			})
		}
		_ = history.Check(events, history.Options{}).String()
	})
}

// A command that fails again and again for a month writes this many.
func TestManyStartsOfOneItemAreJudgedInTime(t *testing.T) {
	var events []history.Event
	at := time.Unix(0, 0)
	for i := range uint64(100_000) {
		events = append(events,
			history.Event{At: at, Verb: history.Start, Proc: "a#1", Item: "w1", Token: i},
			history.Event{At: at.Add(time.Second), Verb: history.Stop, Proc: "a#1", Item: "w1",
				Token: i})
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
