package metrics

import (
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/facts"
)

// What is counted by state is sorted here and nowhere else. The states of an enumeration add up to
// all there is: a finer state is one more word in a list and one more case in a function.

var (
	roles  = []string{"uncertain", "vacant", "following", "leading"}
	phases = []string{"absent", "waiting", "registered", "leaving"}

	// holdingStates are those of an item at its owner.
	holdingStates = []operator.ItemState{operator.ItemRunning, operator.ItemStarting,
		operator.ItemLooping, operator.ItemFailing,
		operator.ItemStopping, operator.ItemStuck, operator.ItemWaiting}
	// itemStates are those of an item of the workload.
	itemStates = []string{"owned", "waiting", "releasing", "free", "unplaced",
		"quarantined"}
	// memberStates are those of a member.
	memberStates = []string{"ready", "idle", "drained", "leaving", "unreadable", "lost"}
)

// itemCounts counts the workload: waiting items are at a member that may be lost, unplaced ones fit
// nowhere, quarantined ones are run by nobody because their work failed too often.
func itemCounts(p facts.Distribution) map[string]int {
	unplaced := min(p.Unplaced, p.Free) // others stay where they are until there is room elsewhere
	return map[string]int{"owned": p.Owned - p.Waiting, "waiting": p.Waiting,
		"releasing": p.Releasing, "free": p.Free - unplaced, "unplaced": unplaced,
		"quarantined": p.Quarantined}
}

// memberCounts counts the members, and names those that items may be given to.
func memberCounts(m facts.Members, c facts.Control, p facts.Distribution) (n map[string]int,
	ready []string) {
	n = map[string]int{"lost": p.Lost}
	for id, member := range m.Items.All() {
		switch {
		case member.Unreadable:
			n["unreadable"]++
		case member.Leaving:
			n["leaving"]++
		case c.Drain.Has(id):
			n["drained"]++
		case member.Idle:
			n["idle"]++
		default:
			n["ready"]++
			ready = append(ready, id)
		}
	}
	return n, ready
}
