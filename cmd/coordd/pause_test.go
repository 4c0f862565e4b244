package main

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
)

// A frozen leader says only when it goes on that it leads no more: it is accused of nothing. One
// that goes on leading then is.
func TestALeaderThatStoodStillLedUntilThen(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	for name, x := range map[string]struct {
		looks    []float64
		hears    float64
		ended    float64
		breaches int
	}{
		"it hears of it when it goes on":     {[]float64{9, 10, 60}, 60, 10, 0},
		"it hears of it a little later":      {[]float64{9, 10, 60, 60.5}, 60.9, 10, 0},
		"it goes on leading for a while":     {[]float64{9, 10, 60, 61}, 61.5, 61.5, 1},
		"it stood still long before":         {[]float64{8, 10, 15, 20, 25, 30}, 35, 35, 1},
		"it waited for its turn on the host": {[]float64{5, 10, 15, 20, 25, 30}, 35, 35, 1},
	} {
		paused := pauseDetector{checked: begin, limit: pauseLimit}
		for _, s := range x.looks {
			paused.check(at(s))
		}
		paused.check(at(x.hears))
		if got := paused.ended(at(x.hears)); !got.Equal(at(x.ended)) {
			t.Errorf("%s: it led until %v, want %v", name, got.Sub(begin), at(x.ended).Sub(begin))
		}
		r := history.Check(history.Merge([]history.Event{
			{At: at(0), Verb: history.Boot, Proc: "a#1"},
			{At: at(1), Verb: history.Lead, Proc: "a#1", Epoch: 5},
			{At: paused.ended(at(x.hears)), Verb: history.Unlead, Proc: "a#1", Epoch: 5},
			{At: at(70), Verb: history.Alive, Proc: "a#1"},
		}, []history.Event{
			{At: at(0), Verb: history.Boot, Proc: "b#1"},
			{At: at(30), Verb: history.Lead, Proc: "b#1", Epoch: 6},
			{At: at(70), Verb: history.Alive, Proc: "b#1"},
		}), history.Options{})
		if len(r.Breaches) != x.breaches {
			t.Errorf("%s: %v", name, r)
		}
	}
}
