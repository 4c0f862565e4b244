package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/testkit"
)

// rollout draws an input in which some members are of the newest version and others are not.
func rollout(d testkit.Dice, s shape) input {
	s.rollout = true
	for {
		if in := s.sized(d.Rand, 2+d.Few(s.maxMembers-2), d.Few(s.maxItems)); in.rollout() {
			return in
		}
	}
}

func TestVersionsThatAllShareMeanNothing(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d).plain()
		want := in.plan()
		for j := range in.members {
			in.members[j].Newest = true
		}
		if got := in.plan(); !slices.Equal(got.Moves, want.Moves) {
			t.Fatalf("%+v, want %+v", got.Moves, want.Moves)
		}
	})
}

func TestARolloutCostsNoMoves(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := rollout(d, shape{maxMembers: 8, maxItems: 50, drains: true, transit: true,
			capacities: d.Bool(), pins: d.Bool()})
		p, plain := in.plan(), in.plain().plan()
		if heldMoves(p) > heldMoves(plain) || len(p.Unplaced) != len(plain.Unplaced) {
			t.Fatalf("%d held items move and %d have no place; without versions %d and %d",
				heldMoves(p), len(p.Unplaced), heldMoves(plain), len(plain.Unplaced))
		}
	})
}

func TestInARolloutOlderMembersGetHalfAShareWhileANewerOneMayHaveMore(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := rollout(d, shape{maxMembers: 8, maxItems: 50, drains: true, transit: true,
			capacities: d.Bool()})
		if len(in.items) == 0 {
			return
		}
		p, unit := in.plan(), weight(in.items[0])
		share := slices.Max(in.plain().plan().Loads)
		for j, m := range in.members {
			roof := share
			if m.Newest {
				roof *= 2
			}
			if p.Loads[j] > roof {
				t.Fatalf("%+v is to hold %d, the largest share is %d", m, p.Loads[j], share)
			}
			if m.Newest && p.Loads[j] < roof && in.room(j, p.Loads[j], unit) {
				for _, mv := range p.Moves {
					if to := mv.To.Member(); mv.To != none && !in.members[to].Newest &&
						p.Loads[to] > max(share/2, unit) {
						t.Fatalf("%+v, although %+v holds only %d", mv, m, p.Loads[j])
					}
				}
			}
		}
	})
}

func TestAWeightedRolloutLoadsNobodyMoreThanTwiceTheAverageAndAnItem(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		s := shape{maxMembers: 8, maxItems: 50, drains: true, transit: true, weighted: true,
			rollout: true}
		in := rollout(d, s)
		if !slices.ContainsFunc(in.items, func(it placement.Item) bool {
			return weight(it) != weight(in.items[0])
		}) {
			return
		}
		var total, heaviest, takers uint64
		for _, it := range in.items {
			total, heaviest = total+weight(it), max(heaviest, weight(it))
		}
		for _, m := range in.members {
			if !m.Drain {
				takers++
			}
		}
		loads := in.plan().Loads
		if most := 2*((total+takers-1)/takers) + heaviest; slices.Max(loads) > most {
			t.Fatalf("loads %v of %d for %d members, the heaviest is %d", loads, total, takers,
				heaviest)
		}
	})
}

// TestARollingRestartMovesEachItemOnce restarts all members one after the other, each of which is
// away for longer than its items wait. The first has nobody of the new version to give its items
// to, so these move twice, and when all are of one version the last has to be filled. With
// different weights a few more move for balance. All others move once.
func TestARollingRestartMovesEachItemOnce(t *testing.T) {
	const m, n = 10, 1000
	for _, weighted := range []bool{false, true} {
		restart := func(versions bool) (moves int) {
			in := fresh(m, n)
			for i := range in.items {
				if weighted {
					in.items[i].Weight = uint64(1 + i%4)
				}
			}
			in = in.carryOut(in.plan())
			step := func() {
				p := in.plan()
				moves += len(p.Moves)
				in = in.carryOut(p)
			}
			for j := range m {
				in.members[j].Drain = true
				step()
				in.members[j].Drain, in.members[j].Newest = false, versions
				step()
			}
			if loads := in.held(); slices.Max(loads)-slices.Min(loads) > 4 {
				t.Errorf("weighted %v: loads %v when all are of one version", weighted, loads)
			}
			return moves
		}
		with, without := restart(true), restart(false)
		t.Logf("weighted %v: %d items are moved %d times, without versions %d times", weighted, n,
			with, without)
		if with > n+3*n/m {
			t.Errorf("weighted %v: %d items are moved %d times", weighted, n, with)
		}
	}
}

// TestMembersThatAreReplacedGiveEachItemOnce: as many new members join as there are old ones, which
// then leave one after the other.
func TestMembersThatAreReplacedGiveEachItemOnce(t *testing.T) {
	const m, n = 10, 1000
	in := fresh(m, n)
	in = in.carryOut(in.plan())
	for j := range m {
		in.members = append(in.members, placement.Member{ID: fmt.Sprintf("n%06d", j), Newest: true})
	}
	moved := make([]int, n)
	for j := range m + 1 {
		p := in.plan()
		for _, mv := range p.Moves {
			moved[mv.Item]++
		}
		in = in.carryOut(p)
		in.members[min(j, m-1)].Drain = true
	}
	if slices.Max(moved) != 1 || slices.Min(moved) != 1 {
		t.Errorf("items are moved %d to %d times", slices.Min(moved), slices.Max(moved))
	}
}
