package facts

import (
	"time"

	"github.com/coordd/coordd/messages"
)

// Session is what the session-renewer says: which Consul session this member
// has, and until when it may count on it.
type Session struct {
	ID    string // empty: none
	Check string // that the session is bound to, and ends with; empty: none
	Lease Lease
	// Count is the number of sessions opened so far; a new one makes everything
	// that hung on the earlier one void.
	Count int
	// Reconnects counts the renewals that succeeded after a failed one. Watches
	// that may sit on a dead connection take it as the sign to ask anew.
	Reconnects int
}

// Holds tells whether the session may be counted on at now with margin to spare.
func (s Session) Holds(now time.Time, margin time.Duration) bool {
	return s.ID != "" && s.Lease.Valid(now, margin)
}

// Check is what the check-keeper says: whether Consul's agent has a check by which it notices the
// end of this process.
type Check struct {
	Known bool   // it has been found out
	ID    string // of the check; empty: the agent has none, and a session ends by its TTL alone
	// Reported is when the last report was sent that the agent has taken.
	Reported time.Time
}

// Lapsed tells whether the check, whose TTL it is, may have ended a session that is over at now: no
// report was taken for that long.
func (c Check) Lapsed(s Session, now time.Time, ttl time.Duration) bool {
	return s.Check != "" && now.Sub(c.Reported) >= ttl
}

// MembershipPhase says how far this member has come with its own record.
type MembershipPhase uint8

const (
	// Absent: not registered.
	Absent MembershipPhase = iota
	// Waiting: a predecessor's record or Consul's lock-delay is in the way.
	Waiting
	// Registered: members/<m> is locked by this member's session.
	Registered
	// Leaving: registered, and about to go: it gets no new work.
	Leaving
)

func (p MembershipPhase) String() string {
	return [...]string{"absent", "waiting", "registered", "leaving"}[p]
}

// Membership is what the membership-keeper says of this member's own record.
type Membership struct {
	Phase   MembershipPhase
	Session string // that the record is locked by
	// Index is the record's CreateIndex: one half of every fencing token here.
	Index uint64
	// ClearAt is when items inherited from a predecessor may be started or
	// released: zero when there is nothing to wait for.
	ClearAt time.Time
	// Inherited is the longest TTL that a predecessor may still count on until ClearAt. 0 when
	// there is nothing to wait for.
	Inherited time.Duration
	// Written is the ModifyIndex with which the record was last written by this member.
	Written uint64
}

// In tells whether the record stands and is locked by session.
func (m Membership) In(session string) bool {
	return (m.Phase == Registered || m.Phase == Leaving) && session != "" && m.Session == session
}

// Role is a member's part in the leadership.
type Role uint8

const (
	// Uncertain: it cannot be told who leads: Consul does not answer, or this
	// member's own lease is over.
	Uncertain Role = iota
	// Vacant: nobody leads.
	Vacant
	// Following: another member leads.
	Following
	// Leading: this member leads.
	Leading
)

func (r Role) String() string {
	return [...]string{"uncertain", "vacant", "following", "leading"}[r]
}

// Leadership is what the leader-tracker says.
type Leadership struct {
	Role   Role
	Leader string // the leader's id; empty when vacant or uncertain
	// Term is the ModifyIndex with which the leadership was taken: it names this
	// leadership from its beginning to its end. 0 unless Leading.
	Term uint64
	// Epoch is the ModifyIndex that guards the leader's writes now. It starts as
	// Term and rises within the term whenever a write's outcome was unknown.
	Epoch   uint64
	Session string // the leader key's session, also of another member
	// ClearAt is when the host's own duty may begin: a predecessor may count on its lease until
	// then. Zero when there is nothing to wait for. The assigner need not wait, for Consul refuses
	// a deposed leader's writes.
	ClearAt time.Time
	// Resets counts how often Consul was found to have gone back behind the epoch.
	Resets int
}

// Assignment is one key that the leader wrote for a member.
type Assignment struct {
	Releasing bool // asked to give it up
	// Another program wrote over it: what runs goes on until the leader has written it again.
	Unreadable  bool
	AtOnce      bool   // taken over from a vanished member: its work begins without a soak
	Session     string // the session it was granted to
	Reason      string // the plan's reason
	Restart     uint64 // the work is to be started once more when it rises
	Changed     uint64 // the item's workload key has changed up to this ModifyIndex
	Other       string // what a later version has written beside, as it is
	CreateIndex uint64
	ModifyIndex uint64
}

// Assignments is what the assignment-watcher says: what the leader wants this
// member to run. It counts under a registration only if Index is not below the
// record's: registering writes to the watched prefix, so an answer from before
// it, or from a server that lags behind it, shows by its index.
type Assignments struct {
	Index uint64
	Items messages.Table[Assignment]
}

// WorkPhase says how far the work on an item has come.
type WorkPhase uint8

const (
	// Running: the work function runs, and is started again when it returns.
	Running WorkPhase = iota
	// Stopping: told to stop, not yet ended.
	Stopping
	// Stopped: ended; the key is not yet released.
	Stopped
)

// Holding is one item that this member works on or has not released yet.
type Holding struct {
	Phase WorkPhase
	Grant uint64    // that the work runs under
	Since time.Time // of its start, or of when it was told to stop
}

// Holdings is what the workers say.
type Holdings struct {
	Session string
	Items   messages.Table[Holding]
}

// Running counts the items that are being worked on and are to go on.
func (h Holdings) Running() int { return h.count(func(p WorkPhase) bool { return p == Running }) }

// Active counts the items whose work has not ended.
func (h Holdings) Active() int { return h.count(func(p WorkPhase) bool { return p != Stopped }) }

func (h Holdings) count(in func(WorkPhase) bool) (n int) {
	for _, item := range h.Items.All() {
		if in(item.Phase) {
			n++
		}
	}
	return n
}
