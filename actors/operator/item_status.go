package operator

import (
	"time"
)

// ItemState says what becomes of an item, as far as Consul tells.
type ItemState string

// The states of an item. Of those that have an owner all but ItemUnknown, ItemStopping and some of
// ItemWaiting are what the owner itself says.
const (
	// ItemRunning: its work runs. It may have been restarted.
	ItemRunning ItemState = "running"
	// ItemStarting: it has an owner, and its work has not begun yet.
	ItemStarting ItemState = "starting"
	// ItemLooping: its work ends again and again without being told to, by itself or by the guard
	// or the lease, and is restarted with growing pauses.
	ItemLooping ItemState = "crash-looping"
	// ItemFailing: its work runs, and its check fails.
	ItemFailing ItemState = "failing-check"
	// ItemStopping: its owner is to give it up, or has stopped its work.
	ItemStopping ItemState = "stopping"
	// ItemStuck: its work was told to stop, and has not ended within the stop timeout of its owner.
	ItemStuck ItemState = "stuck"
	// ItemWaiting: nobody works on it that is known of, and nobody else may yet: it waits for the
	// lease of a member that is gone, or of its owner's previous process.
	ItemWaiting ItemState = "waiting"
	// ItemFree: it has no owner.
	ItemFree ItemState = "free"
	// ItemQuarantined: nobody works on it, because its work failed too often at one member and then
	// at another one, or there was none. [Client.Restart] ends that, and another member that takes
	// it if there was none.
	ItemQuarantined ItemState = "quarantined"
	// ItemUnknown: it has an owner, and it is not known what the work does.
	ItemUnknown ItemState = "unknown"
)

// ItemStates are all states, in the order in which they are shown.
var ItemStates = []ItemState{ItemRunning, ItemStarting, ItemLooping, ItemFailing, ItemStopping,
	ItemStuck, ItemWaiting, ItemFree, ItemQuarantined, ItemUnknown}

// Cause says why an item is in a state in which its work is not known to run, and does not begin by
// itself.
type Cause string

// The causes.
const (
	CauseNoLeader    Cause = "no-leader"   // nobody leads, so nothing is placed or taken over
	CauseFrozen      Cause = "frozen"      // by an operator
	CauseBrake       Cause = "brake"       // the leader holds back
	CauseNoMembers   Cause = "no-members"  // no member takes items
	CausePinned      Cause = "pinned"      // to a member that is not there, or takes none
	CauseNoRoom      Cause = "no-room"     // every member is full
	CauseRefused     Cause = "refused"     // Consul refuses what the leader writes about it
	CausePlacing     Cause = "placing"     // it is about to be given to a member
	CauseLost        Cause = "lost-member" // its owner is gone, and may still be within its lease
	CauseKept        Cause = "kept"        // its owner has asked for its items to wait for it
	CausePredecessor Cause = "predecessor" // a former process of its owner may be within its lease
	CauseSilent      Cause = "silent"      // its owner is heard no more, and is registered still
	CauseBehind      Cause = "behind"      // its owner cannot write what its work does
	CauseUntold      Cause = "untold"      // its owner has not said yet what its work does
	CauseUnnamed     Cause = "unnamed"     // its owner has counted it, and named others

	// Of an item whose work is to stop, or ignores that.

	CauseMoves   Cause = "moves"   // another member gets it
	CauseLeaves  Cause = "leaves"  // its owner is to give it up, and no other member takes it now
	CauseRestart Cause = "restart" // its owner starts it again
)

// ItemStatus is one item: who has it, what its work does, and why.
type ItemStatus struct {
	ID     string    `json:"id"`
	State  ItemState `json:"state"`
	Member string    `json:"member,omitempty"` // its owner; empty: none
	Cause  Cause     `json:"cause,omitempty"`
	Why    string    `json:"why,omitempty"` // a sentence about the state
	// Reason is why the leader gave the item to its owner: new, balance, drain, capacity, pinned,
	// left, released, takeover. An item that its owner is to give up has the reason for that.
	Reason string `json:"reason,omitempty"`
	// Weight is how much of a member's share it takes; absent: 1, or it was not read.
	Weight uint64 `json:"weight,omitempty"`
	// Prefers is what its owner was preferred for among those that it could have gone to, as in
	// "version 2".
	Prefers string `json:"prefers,omitempty"`

	// Grant is the number of the grant that its fencing tokens begin with; 0: not known.
	Grant uint64    `json:"grant,omitempty"`
	Since time.Time `json:"since,omitzero"` // of the state; zero: not known
	// Restarts is how often its work has ended without being told to since its owner started it.
	Restarts int `json:"restarts,omitempty"`
	// LastExit is what it said then, or why all work of its owner was stopped since, as its lease
	// was over.
	LastExit   string    `json:"last_exit,omitempty"`
	LastExitAt time.Time `json:"last_exit_at,omitzero"`
	// FailedAt are members at which its work failed too often; it was tried elsewhere then.
	FailedAt  []string  `json:"failed_at,omitempty"`
	NextStart time.Time `json:"next_start,omitzero"` // while it pauses
	// Until is when somebody else may have it, at the latest, by the clock of the leader; zero: not
	// known.
	Until  time.Time `json:"until,omitzero"`
	Pinned string    `json:"pinned,omitempty"` // the member that it is pinned to
	// Preferred is the member that an operator prefers for it.
	Preferred string `json:"preferred,omitempty"`
	// Removed: it is not in the workload any more.
	Removed bool `json:"removed,omitempty"`
	// Outdated: its work runs with another payload or weight than the workload has by now.
	// [Client.Items] does not read what the workload has, and never says so.
	Outdated bool `json:"outdated,omitempty"`

	anew bool // its owner has registered since it was given the item, and so has another grant
}

// ItemFilter says which items are asked for. An empty list leaves its part open.
type ItemFilter struct {
	IDs, Members []string
	States       []ItemState
}

// Match returns what tells whether an item is asked for. However many values the filter has, one
// item costs three looks into a table.
func (f ItemFilter) Match() func(ItemStatus) bool {
	id, member, state := oneOf(f.IDs), oneOf(f.Members), oneOf(f.States)
	return func(i ItemStatus) bool { return id(i.ID) && member(i.Member) && state(i.State) }
}

// oneOf tells whether a value is one of these; any is, if there are none.
func oneOf[T comparable](these []T) func(T) bool {
	set := make(map[T]bool, len(these))
	for _, x := range these {
		set[x] = true
	}
	return func(x T) bool { return len(set) == 0 || set[x] }
}
