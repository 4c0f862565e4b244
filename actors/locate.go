package actors

import (
	"context"

	"github.com/coordd/coordd/actors/routing"
)

// Location says which member works on an item, at which address, under which grant.
type Location = routing.Location

// The answers of Locate that are no location; to be told apart with errors.Is.
var (
	// ErrMoving is returned for an item that is on its way from one member to another, or waits for
	// a restarted member to be sure that its predecessor is gone.
	ErrMoving = routing.ErrMoving
	// ErrNoOwner is returned for an item of the workload that nobody may work on now.
	ErrNoOwner = routing.ErrNoOwner
	// ErrUnknownItem is returned for an item that is not in the workload.
	ErrUnknownItem = routing.ErrUnknownItem
	// ErrNotReady is returned while what is known of the members and their items may be out of
	// date.
	ErrNotReady = routing.ErrNotReady
	// ErrStopped is returned once [Coordinator.Run] has ended: by [Coordinator.Locate] along with
	// ErrNotReady, and by [Coordinator.WaitForLeader].
	ErrStopped = routing.ErrStopped
)

// Locate tells where an item is worked on: on any member, this one included. The first call makes
// this member follow all assignments, by one long poll for each member; from then on an answer
// costs a look into a table. See package routing for what an answer is worth. The oldest table that
// is answered from is TTL - lease margin ([Bounds.StopsWithin]) old: in an outage of Consul members
// work on for that long, and no longer. Errors: [ErrMoving], [ErrNoOwner], [ErrUnknownItem],
// [ErrNotReady], [ErrStopped].
func (c *Coordinator) Locate(ctx context.Context, item string) (Location, error) {
	return c.routes.Locate(ctx, item)
}

// Router is what Locate asks: for those who want to wait for a move, or for all members' addresses.
func (c *Coordinator) Router() *routing.Router { return c.routes }
