package placement_test

import (
	"fmt"

	"github.com/coordd/coordd/actors/placement"
)

// A member joins: half of the items move to it, and nothing else moves.
func ExampleCompute() {
	members := []placement.Member{{ID: "n1"}, {ID: "n2"}}
	var items []placement.Item
	for _, id := range []string{"a", "b", "c", "d"} {
		item := placement.Item{ID: id, Weight: 1}
		item.Owner = placement.At(0) // n1 holds all
		items = append(items, item)
	}
	plan := placement.Compute(members, items)
	for _, move := range plan.Moves {
		fmt.Printf("%s goes from %s to %s\n", items[move.Item].ID, members[move.From.Member()].ID,
			members[move.To.Member()].ID)
	}
	fmt.Println("loads:", plan.Loads)
	// Output:
	// a goes from n1 to n2
	// b goes from n1 to n2
	// loads: [2 2]
}
