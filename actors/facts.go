package actors

import "github.com/coordd/coordd/internal/facts"

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
