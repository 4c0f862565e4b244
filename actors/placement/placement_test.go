package placement_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/testkit"
)

func TestEqualInputGivesAnEqualPlanAndIsNotModified(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d)
		before := in.clone()
		first, second := in.plan(), in.plan()
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("two plans for one input:\n%v\n%v", first, second)
		}
		if !reflect.DeepEqual(in, before) {
			t.Fatalf("the input was modified")
		}
	})
}

func TestNothingIsLost(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d)
		p := in.plan()
		moves := make(map[int32]placement.Move)
		for _, mv := range p.Moves {
			if _, twice := moves[mv.Item]; twice {
				t.Fatalf("item %d moves twice", mv.Item)
			}
			moves[mv.Item] = mv
			if mv.From != in.items[mv.Item].Owner || mv.From == mv.To {
				t.Fatalf("item %d is held by %d: %+v", mv.Item, in.items[mv.Item].Owner, mv)
			}
		}
		unplaced := make(map[int32]bool)
		for _, u := range p.Unplaced {
			if unplaced[u.Item] || u.Why == "" {
				t.Fatalf("listed twice or without a reason: %+v", u)
			}
			unplaced[u.Item] = true
		}
		for i, it := range in.items {
			mv, moved := moves[int32(i)]
			end := it.Owner
			if moved {
				end = mv.To
			}
			if end == none && !unplaced[int32(i)] {
				t.Fatalf("item %d is nowhere, and not in Unplaced", i)
			}
			if it.Pin == none && end != none && unplaced[int32(i)] ||
				it.Pin != none && (end != it.Pin) != unplaced[int32(i)] {
				t.Fatalf("item %d (pin %d) ends at %d, in Unplaced: %v", i, it.Pin.Member(),
					end.Member(),
					unplaced[int32(i)])
			}
		}
	})
}

func TestLimitsAreHard(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d)
		p := in.plan()
		loads := in.carryOut(p).held()
		if !slices.Equal(loads, p.Loads) {
			t.Fatalf("Loads says %v, the moves lead to %v", p.Loads, loads)
		}
		for j, m := range in.members {
			if m.Drain && loads[j] > 0 || m.Capacity > 0 && loads[j] > m.Capacity {
				t.Fatalf("%+v is to hold %d", m, loads[j])
			}
		}
	})
}

func TestPlanningAgainMovesNothing(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d)
		p := in.plan()
		again := in.carryOut(p).plan()
		if len(again.Moves) > 0 {
			t.Fatalf("the second plan moves %+v", again.Moves)
		}
		if !reflect.DeepEqual(again.Unplaced, p.Unplaced) {
			t.Fatalf("no place for %v, then for %v", p.Unplaced, again.Unplaced)
		}
	})
}

func TestAnItemThatFitsIsPlaced(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d)
		p := in.plan()
		out := in.carryOut(p)
		for _, u := range p.Unplaced {
			it := in.items[u.Item]
			for j := range in.members {
				if it.Pin == none && in.room(j, p.Loads[j], weight(it)) {
					t.Fatalf("item %d of weight %d is in Unplaced, but %s holds %d", u.Item,
						weight(it), in.members[j].ID, p.Loads[j])
				}
			}
		}
		if complaint := out.unfair(); complaint != "" {
			t.Fatal(complaint)
		}
	})
}

func TestEveryMoveNamesItsReason(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d)
		held := in.held()
		left := make([]uint64, len(held)) // what a member has given up, by any reason
		for _, mv := range in.plan().Moves {
			it := in.items[mv.Item]
			from := mv.From.Member()
			var over uint64 // above the capacity when this item's turn came
			if mv.From != none {
				if c := in.members[from].Capacity; c > 0 && held[from] > c+left[from] {
					over = held[from] - c - left[from]
				}
				left[from] += weight(it)
			}
			var want placement.Reason
			switch {
			case mv.From == none:
				want = placement.New
			case it.Pin != none && it.Pin != mv.From:
				want = placement.Pinned
			case in.members[from].Drain:
				want = placement.Drain
			case over > 0:
				want = placement.Capacity
			default:
				want = placement.Balance
			}
			if mv.Reason != want {
				t.Fatalf("%+v: want %v", mv, want)
			}
			if want == placement.Balance && it.Pin != none {
				t.Fatalf("a pinned item moves for balance: %+v", mv)
			}
		}
	})
}

func TestFreeItemsComeFirst(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d)
		byMember := !slices.ContainsFunc(in.items, func(it placement.Item) bool {
			return it.Pin != none || weight(it) != weight(in.items[0])
		}) && !slices.ContainsFunc(in.members, func(m placement.Member) bool {
			return m.Zone != in.members[0].Zone
		})
		moves := in.plan().Moves
		for k := 1; k < len(moves); k++ {
			a, b := moves[k-1], moves[k]
			if byMember && a.From == none && b.From == none && a.To > b.To {
				t.Fatalf("%+v before %+v", a, b)
			}
			if (a.From == none) == (b.From == none) && a.Item >= b.Item ||
				a.From != none && b.From == none {
				t.Fatalf("%+v before %+v", a, b)
			}
		}
	})
}

// TestLargeInputs holds the guarantees at sizes where the planner takes other paths than on small
// inputs: it keeps no list of the items that are free, leaving or pinned when these are many.
func TestLargeInputs(t *testing.T) {
	for seed := range 12 {
		s := shape{drains: true, transit: true}
		s.weighted, s.capacities, s.pins = seed&1 > 0, seed&2 > 0, seed&4 > 0
		in := s.sized(rand.New(rand.NewPCG(uint64(seed), 0)), 30, 12_000)
		p := in.plan()
		out := in.carryOut(p)
		loads := out.held()
		if !slices.Equal(loads, p.Loads) {
			t.Errorf("seed %d: Loads says %v, the moves lead to %v", seed, p.Loads, loads)
		}
		moving := make(map[int32]bool)
		for _, mv := range p.Moves {
			if moving[mv.Item] || mv.From != in.items[mv.Item].Owner {
				t.Errorf("seed %d: wrong or repeated: %+v", seed, mv)
			}
			moving[mv.Item] = true
		}
		nowhere := make(map[int32]bool)
		for _, u := range p.Unplaced {
			nowhere[u.Item] = true
		}
		for i, it := range out.items {
			if it.Owner == none && !nowhere[int32(i)] {
				t.Errorf("seed %d: item %d of %d is nowhere, and not in Unplaced", seed, i,
					len(out.items))
			}
		}
		if complaint := out.unfair(); complaint != "" {
			t.Errorf("seed %d: %s", seed, complaint)
		}
		if again := out.plan(); len(again.Moves) > 0 {
			t.Errorf("seed %d: the second plan has %d moves", seed, len(again.Moves))
		}
	}
}

func TestUnchangedInputCostsNothingPerItem(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		allocs := func(n int) float64 {
			in := fresh(20, n)
			for i := range in.items {
				if weighted {
					in.items[i].Weight = uint64(1 + i%10)
				}
			}
			in = in.carryOut(in.plan())
			return testing.AllocsPerRun(5, func() {
				if p := in.plan(); p.Moves != nil || p.Unplaced != nil {
					t.Errorf("moves on unchanged input: %v", p)
				}
			})
		}
		few, many := allocs(100), allocs(10_000)
		if few != many || many > 30 {
			t.Errorf("weighted %v: %v allocations for 100 items, %v for 10,000", weighted, few,
				many)
		}
	}
}

func TestOddInput(t *testing.T) {
	one := []placement.Member{{ID: "a"}}
	for _, tt := range []struct {
		name    string
		members []placement.Member
		items   []placement.Item
		want    placement.Outcome
	}{
		{"nothing at all", nil, nil, placement.Outcome{Loads: []uint64{}}},
		{"no members", nil, []placement.Item{{ID: "x", Weight: 1}},
			placement.Outcome{Loads: []uint64{},
				Unplaced: []placement.Unplaced{{Item: 0, Why: placement.WhyNoMembers}}}},
		{"no members, weighted", nil, []placement.Item{{ID: "x", Weight: 1},
			{ID: "y", Weight: 2}},
			placement.Outcome{Loads: []uint64{},
				Unplaced: []placement.Unplaced{{Item: 0, Why: placement.WhyNoMembers},
					{Item: 1, Why: placement.WhyNoMembers}}}},
		{"no items", one, nil, placement.Outcome{Loads: []uint64{0}}},
		{"an owner that is no member", one,
			[]placement.Item{{ID: "x", Owner: at(7), Leaving: true}},
			placement.Outcome{Loads: []uint64{1}, Moves: []placement.Move{{Item: 0, To: at(0),
				Reason: placement.New}}}},
		{"weights beyond the largest", one, []placement.Item{{ID: "x", Weight: 1 << 63},
			{ID: "y", Weight: 1 << 63}},
			placement.Outcome{Loads: []uint64{2 * placement.MaxWeight}, Moves: []placement.Move{
				{Item: 0, To: at(0), Reason: placement.New}, {Item: 1, To: at(0),
					Reason: placement.New}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := placement.Compute(tt.members, tt.items)
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestReasonsAreWords(t *testing.T) {
	words := []string{"unknown", "new", "balance", "drain", "capacity", "pinned", "unknown"}
	for r, want := range words {
		if got := placement.Reason(r).String(); got != want {
			t.Errorf("Reason(%d) reads %q, want %q", r, got, want)
		}
	}
}
