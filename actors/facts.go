package actors

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
)

// What a member says in its states: see [Coordinator.Leadership] and its neighbours.
type (
	Session      = facts.Session
	Lease        = facts.Lease
	Membership   = facts.Membership
	Leadership   = facts.Leadership
	Role         = facts.Role
	Holdings     = facts.Holdings
	Distribution = facts.Distribution
)

// The roles of a member, in [Leadership].
const (
	Uncertain = facts.Uncertain
	Vacant    = facts.Vacant
	Following = facts.Following
	Leading   = facts.Leading
)

// What a [Host.Observer] is told. It ignores an Observation that it does not know.
type (
	Observer     = facts.Observer
	Observation  = facts.Observation
	PollOpened   = facts.PollOpened
	CallEnded    = facts.CallEnded
	RenewalEnded = facts.RenewalEnded
	Assigned     = facts.Assigned
	TakenOver    = facts.TakenOver
)

// StopCause says why the context of a [Work] or a [Lead] has ended:
//
//	if errors.Is(context.Cause(ctx), actors.StopDrained) { … }
//
// Any other cause is an actor of the member's that failed, as in [Coordinator.Report]: what it runs
// is stopped, and begins anew.
type StopCause = actor.StopCause

// The causes. Of several the first one counts that the member hears of.
const (
	StopMoved       = actor.StopMoved       // the item is given to another member
	StopRemoved     = actor.StopRemoved     // the item is not in the workload any more
	StopDrained     = actor.StopDrained     // the member is to take no items
	StopFailing     = actor.StopFailing     // the work failed too often: see [Config.MaxRestarts]
	StopRestarted   = actor.StopRestarted   // an operator has ordered a restart
	StopChanged     = actor.StopChanged     // the payload has changed, with [RestartOnChange]
	StopLeaseOver   = actor.StopLeaseOver   // Consul did not confirm the session in time
	StopSessionLost = actor.StopSessionLost // Consul has ended the session, or the record is gone
	StopDeposed     = actor.StopDeposed     // of a [Lead]: another member may lead
	StopShutdown    = actor.StopShutdown    // the context of [Coordinator.Run] has ended
)

// NoItems is the [Config.Capacity] of a member that takes no items. It may lead, and route.
const NoItems uint64 = actor.NoItems

// Interrupted returns err as the end of work that something else has brought about, such as what
// all work of the host needs. It counts for no failure of the work: see [Config.MaxRestarts]. Nil
// stays nil.
func Interrupted(err error) error { return actor.Interrupted(err) }
