package facts

import (
	"time"

	"github.com/coordd/coordd/messages"
)

// Member is another member's record, as the leader sees it.
type Member struct {
	Leaving bool // it goes: it gets nothing and gives up what it has
	Idle    bool // it runs no items: it leads, or watches, and no more
	// Another program wrote over its record. The member keeps its items and gets none until it has
	// written the record again.
	Unreadable  bool
	Address     string
	Session     string
	Capacity    uint64 // the most weight it may hold; 0: no limit
	Zone        string
	WorkVersion string
	TellChanges bool // it is to be told of changes of its items in the workload
	CreateIndex uint64
}

// Members is what the member-watcher says: who is registered.
type Members struct {
	Term  uint64 // the leadership in which it was read; of another term it is out of date
	Index uint64
	Items messages.Table[Member]
}

// Ack is one member's acks key, as far as the assigner needs it.
type Ack struct {
	// Failing: the member's summary names items whose work fails too often.
	Failing     bool
	ModifyIndex uint64
}

// Acks is what the ack-watcher says: who has registered or released since.
type Acks struct {
	Term  uint64
	Index uint64
	Items messages.Table[Ack]
}

// WorkItem is one item of the workload, without its payload.
type WorkItem struct {
	Weight      uint64 // at least 1
	CreateIndex uint64
	ModifyIndex uint64
}

// Workload is what the workload-watcher says.
type Workload struct {
	Term  uint64
	Index uint64
	Items messages.Table[WorkItem]
}

// Control is what operators have ordered: see the control keys in the design.
type Control struct {
	Term  uint64
	Index uint64
	// Freeze: plan nothing, write nothing.
	Freeze bool
	// Override is the ModifyIndex of the operator's last word that a brake is to be let go, and
	// OverrideAt when it was seen to come, or found at the beginning of the term and no older than
	// five minutes; zero when it is older.
	Override   uint64
	OverrideAt time.Time
	// Drain holds the members that are to be emptied, and until when each gives up its items within
	// the move budget. Zero: the budget holds without end.
	Drain messages.Table[time.Time]
	// Pins says on which member an item must be, Preferred where it is to be if that is possible.
	Pins, Preferred messages.Table[string]
	// By says who gave an order, or took it back, by the order's name below `control/`, as far as
	// that is known.
	By messages.Table[string]
	// RestartItems and RestartMembers are the ModifyIndexes of the orders to start the work of an
	// item, or of all that a member has, once more.
	RestartItems, RestartMembers messages.Table[uint64]
}

// Share is one member's part of the workload.
type Share struct {
	Items     int    // owned, those being released included
	Releasing int    // of them
	Weight    uint64 // of them
}

// Distribution is what the assigner says of its work, for those who watch.
type Distribution struct {
	Term, Epoch uint64
	Shares      messages.Table[Share]
	Total       int // items of the workload
	Owned       int // with a key that says own
	Releasing   int
	Free        int
	Unplaced    int // of the free ones: those that fit nowhere
	// Waiting items, of the owned ones, stay where they are though nobody there may answer: a
	// member that was lost may still hold a lease, or an unreadable record is in the way.
	Waiting int
	// Lost members have items and no record.
	Lost int
	// Quarantined items are run by nobody, because their work failed too often. They are none of
	// the free ones.
	Quarantined int
	// Excess is the weight that members hold above what the planner gives them: what has yet to
	// move. Not known (0) while there is a Brake.
	Excess uint64
	// Brake says why nothing is planned although there is something to do; empty when it is not so.
	Brake string
	// Frozen: it is an operator's freeze, and no brake.
	Frozen bool
	// Settled: there is nothing more to do.
	Settled bool
	At      time.Time
}

// Bump asks the leader-tracker for a new epoch because the outcome of a write
// under Epoch is unknown. The answer is the Leadership with the new epoch, or an
// error when this member leads no more.
type Bump struct{ Epoch uint64 }

// Unfit is what the assigner says when its token may not write what a leader writes. The
// leader-tracker hands the leadership over and does not campaign for a minute.
type Unfit struct {
	Term    uint64 // the leadership that it is about; 0: nothing
	Missing string // what is denied, with the rule of docs/acl.md
}
