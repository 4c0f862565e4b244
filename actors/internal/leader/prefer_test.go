package leader

import (
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// weighs makes the items the workload, with these weights.
func (s *inputs) weighs(weights map[string]uint64) {
	all, ids := map[string]facts.WorkItem{}, []string{}
	for id, n := range weights {
		all[id] = facts.WorkItem{Weight: n}
		ids = append(ids, id)
	}
	s.work(ids...)
	s.workload = messages.TableOf(all)
}

func (s *inputs) holds(member string, capacity uint64) {
	s.member(member, func(m *facts.Member) { m.Capacity = capacity })
}

func (s *inputs) prefers(wishes map[string]string) {
	s.control.Preferred = messages.TableOf(wishes)
}

// What the leader pins for the planner, for a wish or because work has failed, is no operator's
// pin: no item is without an owner for its sake.
func TestWishesAndFailuresLeaveNoItemWithoutAnOwner(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*inputs)
		want   []string
	}{
		"a wish, where what has failed elsewhere needs all the room": {func(s *inputs) {
			s.work("x", "y")
			s.has("n1", "x")
			s.failed("x", time.Minute, "n2")
			s.holds("n1", 1)
			s.prefers(map[string]string{"y": "n1"})
		}, []string{"grant y n2"}},
		"what has failed, where a pinned item is expected": {func(s *inputs) {
			s.work("x", "y", "z")
			s.member("n3", nil)
			s.has("n1", "x~")
			s.has("n3", "z")
			s.failed("y", time.Minute, "n1")
			s.holds("n2", 1)
			s.control.Pins = messages.TableOf(map[string]string{"x": "n2"})
		}, []string{"grant y n3", "revoke z n3"}},
		"a pinned item, where what has failed elsewhere has all the room": {func(s *inputs) {
			s.work("x", "y", "z")
			s.member("n3", nil)
			s.has("n2", "y")
			s.has("n3", "z")
			s.failed("y", time.Minute, "n1")
			s.holds("n2", 1)
			s.control.Pins = messages.TableOf(map[string]string{"x": "n2"})
		}, []string{"grant x n2", "revoke y n2", "revoke z n3"}},
		"a wish that would displace what has no other place": {func(s *inputs) {
			s.weighs(map[string]uint64{"x": 2, "y": 1})
			s.has("n1", "x")
			s.has("n2", "y")
			s.holds("n1", 2)
			s.holds("n2", 1)
			s.prefers(map[string]string{"y": "n1"})
		}, nil},
		"a wish that displaces what has another place": {func(s *inputs) {
			s.work("x", "y")
			s.has("n1", "x")
			s.has("n2", "y")
			s.holds("n1", 1)
			s.holds("n2", 1)
			s.prefers(map[string]string{"y": "n1"})
		}, []string{"revoke x n1", "revoke y n2"}},
		"a wish of what has failed, and runs elsewhere": {func(s *inputs) {
			s.work("x", "y")
			s.member("n3", nil)
			s.has("n1", "x")
			s.has("n2", "y")
			s.failed("x", time.Minute, "n2")
			s.prefers(map[string]string{"x": "n3"})
		}, []string{"revoke x n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inputsOf(t, c.change).plan().words(); !slices.Equal(got, c.want) {
				t.Errorf("orders %q; want %q", got, c.want)
			}
		})
	}
}
