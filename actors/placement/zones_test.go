package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/testkit"
)

// withoutZones returns the input without them.
func (in input) withoutZones() input {
	out := in.clone()
	for j := range out.members {
		out.members[j].Zone = ""
	}
	return out
}

func TestZonesCostNothing(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := everything(d)
		p, plain := in.plan(), in.withoutZones().plan()
		if !slices.Equal(p.Loads, plain.Loads) || !slices.Equal(p.Unplaced, plain.Unplaced) ||
			len(p.Moves) > len(plain.Moves) || heldMoves(p) > heldMoves(plain) {
			t.Fatalf("%+v, without zones %+v", p, plain)
		}
	})
}

// stays counts the items that move within the zone they were in, and says how many could.
func (in input) stays(p placement.Outcome) (stay, could int) {
	places, homes := map[string]int{}, map[string]int{}
	for _, mv := range p.Moves {
		at := mv.From
		if at == none {
			at = in.items[mv.Item].Near
		}
		if mv.To == none || in.items[mv.Item].Pin != none {
			continue
		}
		to := in.members[mv.To.Member()].Zone
		places[to]++
		if j := at.Member(); j >= 0 && j < len(in.members) {
			home := in.members[j].Zone
			homes[home]++
			if home == to {
				stay++
			}
		}
	}
	for zone, n := range homes {
		could += min(n, places[zone])
	}
	return stay, could
}

func TestItemsOfOneWeightStayInTheirZoneAsFarAsThatGoes(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		s := shape{maxMembers: 8, maxItems: 50, drains: true, transit: true, zones: true,
			capacities: d.Bool(), pins: d.Bool(),
			rollout: d.Bool()}
		in := s.draw(d)
		for i := range in.items {
			in.items[i].ID = fmt.Sprintf("w%04d", i) // no groups
		}
		if stay, could := in.stays(in.plan()); stay != could {
			t.Fatalf("%d items stay in their zones, %d could", stay, could)
		}
	})
}

// inZones returns members in three zones and groups of three items, placed.
func inZones(members, groups int) input {
	in := fresh(members, 3*groups)
	for j := range in.members {
		in.members[j].Zone = fmt.Sprintf("zone-%d", j%3)
	}
	for i := range in.items {
		in.items[i].ID = fmt.Sprintf("g%04d:%d", i/3, i%3)
	}
	return in.carryOut(in.plan())
}

// spread counts the groups that have an item in each of three zones.
func (in input) spreadGroups() (n int) {
	for i := 0; i < len(in.items); i += 3 {
		zones := map[string]bool{}
		for _, it := range in.items[i : i+3] {
			zones[in.members[it.Owner.Member()].Zone] = true
		}
		if len(zones) == 3 {
			n++
		}
	}
	return n
}

func TestGroupsAreSpreadOverZonesAndAreAgainWhenALostZoneIsBack(t *testing.T) {
	const members, groups = 6, 100
	in := inZones(members, groups)
	if n := in.spreadGroups(); n != groups {
		t.Errorf("%d of %d groups are spread at first", n, groups)
	}
	for j := range in.members {
		in.members[j].Drain = in.members[j].Zone == "zone-1"
	}
	in = in.carryOut(in.plan())
	for j := range in.members {
		in.members[j].Drain = false
	}
	in = in.carryOut(in.plan())
	if n := in.spreadGroups(); n < groups*95/100 {
		t.Errorf("%d of %d groups are spread when the zone is back", n, groups)
	}
	in.members[0].Drain = true
	in = in.carryOut(in.plan())
	for _, mv := range in.plan().Moves {
		t.Errorf("%+v", mv)
	}
}

func TestAMoveSaysWhatItsTargetIsPreferredFor(t *testing.T) {
	members := []placement.Member{{ID: "n1", Zone: "a"}, {ID: "n2", Zone: "a", Drain: true},
		{ID: "n3", Zone: "b"}, {ID: "n4", Zone: "b", Drain: true}}
	for name, test := range map[string]struct {
		items []placement.Item
		want  []placement.Move
	}{
		"they stay": {[]placement.Item{{ID: "x", Owner: at(3)}, {ID: "y", Owner: at(1)}},
			[]placement.Move{{Item: 0, From: at(3), To: at(2), Reason: placement.Drain,
				For: placement.Stay}, {Item: 1, From: at(1), To: at(0), Reason: placement.Drain,
				For: placement.Stay}}},
		"free ones, too": {[]placement.Item{{ID: "x", Near: at(3)}, {ID: "y", Near: at(0)}},
			[]placement.Move{{Item: 0, To: at(2), Reason: placement.New, For: placement.Stay},
				{Item: 1, To: at(0), Reason: placement.New, For: placement.Stay}}},
		"a group is spread": {[]placement.Item{{ID: "x:1", Owner: at(0)}, {ID: "x:2", Owner: at(1)},
			{ID: "y", Owner: at(1)}, {ID: "z", Owner: at(2)}},
			[]placement.Move{{Item: 1, From: at(1), To: at(2), Reason: placement.Drain,
				For: placement.Spread}, {Item: 2, From: at(1), To: at(0),
				Reason: placement.Drain, For: placement.Stay}}},
		"there is one place": {[]placement.Item{{ID: "x", Owner: at(1)}, {ID: "y", Owner: at(0)}},
			[]placement.Move{{Item: 0, From: at(1), To: at(2), Reason: placement.Drain}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := placement.Compute(members, test.items).Moves; !slices.Equal(got, test.want) {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}
