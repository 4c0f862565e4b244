package leader

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

func TestWhatSaysOtherwiseWhereItemsAreToBeIsSoaked(t *testing.T) {
	set := actor.Settings{LeaderSoak: 5 * time.Second, Merge: time.Second}
	at := func(s int) time.Time { return draftedAt.Add(time.Duration(s) * time.Second) }
	item := func(index uint64, w facts.WorkItem) func(*scene) {
		return func(x *scene) {
			x.workload = facts.Workload{Index: index,
				Items: messages.TableOf(map[string]facts.WorkItem{"b": w})}
		}
	}
	var s soak
	var now scene
	s.begin(at(0), now)
	for i, step := range []struct {
		what   string
		change func(*scene)
		soaked bool
	}{
		{"a member", func(x *scene) { x.members.Index = 2 }, true},
		{"an item", item(2, facts.WorkItem{Weight: 1}), true},
		{"a weight", item(3, facts.WorkItem{Weight: 2}), true},
		{"an order", func(x *scene) { x.control = facts.Control{Index: 2, Freeze: true} }, true},
		{"a payload", item(4, facts.WorkItem{Weight: 2, ModifyIndex: 4}), false},
		{"an order to restart", func(x *scene) {
			x.control = facts.Control{Index: 3, Freeze: true,
				RestartItems: messages.TableOf(map[string]uint64{"b": 3})}
		}, false},
		{"nothing", func(*scene) {}, false},
	} {
		t0 := 100 * (i + 1)
		if s.planned(s.rest(at(t0), set), false, set); s.rest(at(t0), set) != (rest{true, true}) {
			t.Errorf("before %s it is not quiet", step.what)
		}
		step.change(&now)
		s.see(at(t0), now)
		for after, want := range map[int]rest{0: {}, 1: {place: true}, 5: {true, true}} {
			if !step.soaked {
				want = rest{true, true}
			}
			if got := s.rest(at(t0+after), set); got != want {
				t.Errorf("%d s after %s: %+v, want %+v", after, step.what, got, want)
			}
		}
	}
}

// Changes that do not end put off no placing for ever.
func TestFreeItemsArePlacedAlsoWhileThingsChange(t *testing.T) {
	set := actor.Settings{LeaderSoak: 5 * time.Second, Merge: time.Second}
	var s soak
	for i := range 5 {
		s.see(draftedAt.Add(time.Duration(i)*900*time.Millisecond),
			scene{members: facts.Members{Index: uint64(i + 2)}})
	}
	now := draftedAt.Add(4 * time.Second)
	if got := s.rest(now, set); got != (rest{place: true}) {
		t.Errorf("after four merges: %+v", got)
	}
	if next := s.planned(s.rest(now, set), true, set); !next.Equal(s.quiet.Add(set.LeaderSoak)) {
		t.Errorf("what waits for the soak is looked at at %v", next)
	}
	if got := s.rest(now.Add(-time.Hour), set); !got.place {
		t.Error("what was placed is waited for once more")
	}
}
