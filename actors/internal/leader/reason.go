package leader

import (
	"slices"

	"github.com/coordd/coordd/internal/protocol"
)

// reason is why the leader does something to an item. Its text is in the item's key and in the
// event log, and metrics count by it. The words for people are in actors/operator/reasons.go.
type reason string

const (
	// Why the planner moves an item: the texts of [placement.Reason].

	reasonNew      reason = "new"      // it has no owner, and it is not known who had it
	reasonBalance  reason = "balance"  // its owner has more than its share
	reasonDrain    reason = "drain"    // its owner is to take no items
	reasonCapacity reason = "capacity" // its owner has more than its capacity
	reasonPinned   reason = "pinned"   // an operator keeps it elsewhere

	// Why the leader has the planner move it.

	reasonPreferred reason = "preferred" // an operator prefers it elsewhere
	reasonFailing   reason = "failing"   // its work failed too often: it is tried elsewhere

	// Why an owner is to give it up, though the planner has not moved it.

	reasonQuarantined  reason = "quarantined"   // its work failed too often: nobody is to run it
	reasonRemoved      reason = "removed"       // it is no longer in the workload
	reasonUnreadable   reason = "unreadable"    // somebody wrote over its key
	reasonNotAddressed reason = "not-addressed" // no leader wrote its key

	// Why it has no owner, or gets another one, without an order to give it up.

	reasonReleased reason = "released"         // its owner released it unasked
	reasonLeft     reason = protocol.EventLeft // its owner stopped
	reasonLost     reason = protocol.EventLost // its owner vanished; the key says takeover
	reasonTakeover reason = "takeover"         // its owner is gone; the event says left or lost

	// The rest.

	reasonCancelled reason = "cancelled" // it is to stay after all
	reasonElsewhere reason = "elsewhere" // it leaves its quarantine: another member takes it
	reasonExpired   reason = "expired"   // a failure was too long ago to count
	reasonRestart   reason = "restart"   // an operator has its work started once more
	reasonChanged   reason = "changed"   // its owner is told that it has changed in the workload
)

// What those who do not lead compare with.
const (
	Takeover    = string(reasonTakeover)
	Failing     = string(reasonFailing)
	Quarantined = string(reasonQuarantined)
)

// trait is what the rest of the package has to know of a reason.
type trait struct {
	soak   bool // a move waits for the leader soak, and for graces to end
	budget bool // a move waits while as many items as the move budget allows are on the move
	drain  bool // the deadline of the owner's drain ends that

	// Where people read it: there it needs a word.
	inKey, inEvent, inPlan bool
}

// traits has all reasons.
var traits = map[reason]trait{
	reasonNew:       {inKey: true, inEvent: true, inPlan: true},
	reasonBalance:   {soak: true, budget: true, inKey: true, inEvent: true, inPlan: true},
	reasonDrain:     {budget: true, drain: true, inKey: true, inEvent: true, inPlan: true},
	reasonCapacity:  {inKey: true, inEvent: true, inPlan: true},
	reasonPinned:    {inKey: true, inEvent: true, inPlan: true},
	reasonPreferred: {inKey: true, inEvent: true, inPlan: true},
	reasonFailing:   {inKey: true, inEvent: true, inPlan: true},

	reasonQuarantined:  {inKey: true, inEvent: true},
	reasonRemoved:      {inKey: true, inEvent: true},
	reasonUnreadable:   {inKey: true, inEvent: true},
	reasonNotAddressed: {inKey: true, inEvent: true},

	reasonReleased: {inKey: true, inEvent: true},
	reasonLeft:     {inKey: true, inEvent: true},
	reasonLost:     {inEvent: true},
	reasonTakeover: {inKey: true, inPlan: true},

	reasonCancelled: {inKey: true, inEvent: true},
	reasonElsewhere: {inEvent: true},
	reasonExpired:   {},
	reasonRestart:   {},
	reasonChanged:   {},
}

// Reasons are the reasons that people read in keys, in events and in plans.
func Reasons() (inKeys, inEvents, inPlans []string) {
	for r, t := range traits {
		if t.inKey {
			inKeys = append(inKeys, string(r))
		}
		if t.inEvent {
			inEvents = append(inEvents, string(r))
		}
		if t.inPlan {
			inPlans = append(inPlans, string(r))
		}
	}
	slices.Sort(inKeys)
	slices.Sort(inEvents)
	slices.Sort(inPlans)
	return inKeys, inEvents, inPlans
}
