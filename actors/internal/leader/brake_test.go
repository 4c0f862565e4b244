package leader

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// items are n items' ids.
func items(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("i%03d", i)
	}
	return all
}

func TestTheBrakeComesOnWhenMostOfItVanishes(t *testing.T) {
	// of n items that are assigned, so many are gone from the workload
	gone := func(n, gone int, more ...func(*inputs)) []func(*inputs) {
		return append([]func(*inputs){func(s *inputs) {
			s.has("n1", items(n)...)
			s.work(items(n)[gone:]...)
		}}, more...)
	}
	// of n members with work, so many have vanished, so long ago
	lost := func(n, lost int, ago time.Duration, more ...func(*inputs)) []func(*inputs) {
		return append([]func(*inputs){func(s *inputs) {
			s.work(items(n)...)
			for i, item := range items(n) {
				id := fmt.Sprintf("m%02d", i)
				s.has(id, item)
				if i < lost {
					s.vanished(id, ago)
				} else {
					s.member(id, nil)
				}
			}
		}}, more...)
	}
	braked := func(s *inputs) { s.brake.cause = brakeForItems }
	missed := func(s *inputs) { s.brake.cause = brakeForMembers }
	restless := func(s *inputs) { s.brake.cause, s.balance = brakeForItems, false }
	override := func(s *inputs) { s.control.OverrideAt = s.now }
	// most of those that have vanished cannot be confirmed, and were looked at first so long ago
	unconfirmed := func(ago time.Duration, but int) func(*inputs) {
		return func(s *inputs) {
			for _, id := range slices.Sorted(maps.Keys(s.absent))[but:] {
				s.absent[id] = absence{asked: s.now.Add(-ago)}
			}
		}
	}
	for name, c := range map[string]struct {
		changes []func(*inputs)
		want    string        // part of the reason; empty: no brake
		wake    time.Duration // 0: not looked at
	}{
		"nothing is gone":             {gone(30, 0), "", 0},
		"few are gone":                {gone(11, 10), "", 0},
		"half are gone":               {gone(22, 11), "", 0},
		"most are gone":               {gone(21, 11), "11 of 21 assigned items", 0},
		"all are gone":                {gone(30, 30), "30 of 30 assigned items", 0},
		"it stays on for many":        {gone(40, 11, braked), "11 of 40 assigned items", 0},
		"it goes off for few":         {gone(40, 10, braked), "", 0},
		"for few not while it moves":  {gone(40, 1, restless), "1 of 40 assigned items", 0},
		"none are gone, and it moves": {gone(40, 0, restless), "", 0},
		"most, and it is meant":       {gone(21, 21, override), "", 0},
		"it was meant of what was gone then": {gone(30, 30, func(s *inputs) {
			s.brake.freed = map[string]bool{}
			for _, item := range items(15) {
				s.brake.freed["n1/"+item] = true
			}
		}), "15 of 15 assigned items", 0},
		"many are gone while members were missed": {gone(40, 11, missed), "", 0},
		"few are gone then, and it moves": {gone(40, 1, missed,
			func(s *inputs) { s.balance = false }), "", 0},
		"many are gone while it was frozen": {gone(40, 11, func(s *inputs) {
			s.control.Freeze = true
			d := s.plan()
			s.control.Freeze, s.brake = false, d.brake
		}), "", 0},

		"three members":       {lost(4, 3, time.Second), "", 0},
		"half of the members": {lost(8, 4, time.Second), "", 0},
		"most members":        {lost(7, 4, time.Minute), "4 of 7 members", 4 * time.Minute},
		"it stays on for four": {lost(20, 4, time.Minute, braked), "4 of 20 members",
			4 * time.Minute},
		"most members, and meant":   {lost(7, 4, time.Second, override), "", 9 * time.Second},
		"most members, long enough": {lost(7, 4, 5*time.Minute), "", 0},
		"most members, unconfirmed": {lost(7, 4, 0, unconfirmed(time.Minute, 0)), "4 of 7 members",
			4 * time.Minute},
		"most members, never confirmed": {lost(7, 4, 0, unconfirmed(5*time.Minute, 0)), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := inputsOf(t, c.changes...).plan()
			if c.want == "" && d.brake.text != "" || !strings.Contains(d.brake.text, c.want) {
				t.Errorf("brake %q; want %q", d.brake.text, c.want)
			}
			if c.want != "" && len(d.orders) > 0 {
				t.Errorf("it writes %q with its brake on", d.words())
			}
			if wake := d.wake; c.wake != 0 && !wake.Equal(draftedAt.Add(c.wake)) {
				t.Errorf("wakes after %v; want %v", wake.Sub(draftedAt), c.wake)
			}
		})
	}
}
