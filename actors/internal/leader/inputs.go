package leader

import (
	"cmp"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// inputs are all that the leader knows at one moment. The maps are the assigner's own: nothing
// changes them from the look until what was written is taken in. Planning is pure: it uses no clock
// and no I/O.
type inputs struct {
	now      time.Time
	members  messages.Table[facts.Member]
	workload messages.Table[facts.WorkItem]
	index    map[string]int32 // place of an item in the workload
	control  facts.Control
	assigned known
	absent   map[string]absence
	failures failures
	// origin says who had an item that has no owner, and why it left; not known: false.
	origin func(item string) (origin, bool)
	zones  map[string]string // of members, also of some that are gone
	brake  brake             // of the last plan
	rest
	limits
}

// rest is what has come to rest: see [soak].
type rest struct {
	place   bool // for a moment: free items may be placed
	balance bool // for the whole soak: items may be moved for balance
}

// limits are the leader's settings, and what it has done so far that counts against them.
type limits struct {
	budget int // the most items on the move for balance, or from drained members, at one time
	// onTheMove are the items that were at the last plan, and since when. One that takes longer
	// than stopping counts no more: its work does not stop.
	onTheMove map[string]time.Time
	stopping  time.Duration
	hold      time.Duration // of the members' brake: see [actor.Settings]
}

// limitsOf are those of a workload of so many items.
func limitsOf(set actor.Settings, items int) limits {
	n := set.MoveBudget
	if set.MoveBudgetShare > 0 {
		share := int(set.MoveBudgetShare * float64(items))
		n = min(cmp.Or(n, share), share)
	}
	return limits{budget: max(1, n), stopping: set.StopTimeout, hold: set.BrakeHold}
}

// indexOf gives each item of a workload its place.
func indexOf(items messages.Table[facts.WorkItem]) map[string]int32 {
	index := make(map[string]int32, items.Len())
	for id := range items.IDs() {
		index[id] = int32(len(index))
	}
	return index
}

// unknownOrigin is the origin of items of which nobody knows who had them.
func unknownOrigin(string) (origin, bool) { return origin{}, false }
