package messages_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/messages"
)

func TestATableHoldsWhatItWasMadeOfInOrderAndCannotBeChangedThroughIt(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		m := map[string]int{}
		for range d.Few(30) {
			m[string([]rune{d.Int32N(300), d.Int32N(3)}[:d.IntN(3)])] = d.Int()
		}
		want := maps.Clone(m)
		table := messages.TableOf(m)
		for id := range m {
			m[id]++
		}
		table.Map()["new"] = 1
		if got := table.Map(); !maps.Equal(got, want) {
			t.Fatalf("the table holds %v, want %v", got, want)
		}
		if ids := slices.Collect(table.IDs()); !slices.IsSorted(ids) || len(ids) != table.Len() {
			t.Fatalf("ids %q", ids)
		}
		for id, v := range want {
			got, ok := table.Get(id)
			if !ok || got != v || !table.Has(id) {
				t.Fatalf("get %q: %d, %v", id, got, ok)
			}
		}
		if _, ok := table.Get("no such id, for it is long"); ok {
			t.Fatal("found what is not there")
		}
	})
}

func TestTableFromTakesPairsInAnyOrderTheLaterOfTwoWins(t *testing.T) {
	table := messages.TableFrom(func(yield func(string, int) bool) {
		_ = yield("b", 1) && yield("a", 2) && yield("b", 3)
	})
	if got := table.Map(); !maps.Equal(got, map[string]int{"a": 2, "b": 3}) {
		t.Errorf("got %v", got)
	}
	if id, v := table.At(0); id != "a" || v != 2 {
		t.Errorf("the first is %s=%d", id, v)
	}
}

func TestALeaseGoesByTheClockByWhichMoreTimeHasPassed(t *testing.T) {
	start := time.Now()
	lease := facts.Lease{Start: start, TTL: 10 * time.Second}
	if left := lease.Left(start.Add(4 * time.Second)); left != 6*time.Second {
		t.Errorf("after 4 s %v are left", left)
	}
	// The host was suspended for an hour: the monotonic clock stood still, the wall clock did not.
	resumed := start.Add(time.Hour).Round(0)
	if lease.Valid(resumed, 0) {
		t.Error("the lease outlived an hour's suspension")
	}
	if (facts.Lease{TTL: time.Hour}).Valid(start, 0) {
		t.Error("the zero lease holds")
	}
	if lease.Valid(start.Add(9500*time.Millisecond), time.Second) {
		t.Error("the margin is not kept")
	}
}
