package routing

import (
	"errors"
	"fmt"
)

// Location is where an item is worked on.
type Location struct {
	Member  string `json:"member"`
	Address string `json:"address"` // as the member published it; may be empty
	// Grant is the number of the grant that the member works under: larger with every grant of the
	// item and every restart of its member. Each run of the work has a fencing token of its own,
	// which begins with this number.
	Grant uint64 `json:"grant"`
}

// The answers that are no location; to be told apart with errors.Is. Their texts name the item.
var (
	// ErrMoving is returned for an item that is on its way from one member to another, or waits for
	// a restarted member to be sure that its predecessor is gone: ask again soon, or use
	// [Router.Await].
	ErrMoving = errors.New("is being moved")
	// ErrNoOwner is returned for an item of the workload that nobody may work on now: it was just
	// added, its member has vanished and its time of grace is running, or there is no room for it.
	ErrNoOwner = errors.New("has no owner")
	// ErrUnknownItem is returned for an item that is not in the workload.
	ErrUnknownItem = errors.New("is not in the workload")
	// ErrNotReady is returned while the table is not known to be current: not all has been read
	// yet, or Consul has not answered for longer than [Config].MaxAge.
	ErrNotReady = errors.New("cannot be located now")
	// ErrStopped is returned, along with ErrNotReady, when [Router.Run] has ended: nobody will read
	// the table any more.
	ErrStopped = errors.New("the router has stopped")
)

// Retriable tells whether an item that got err may have an owner a little later without anybody
// adding it. After [ErrStopped] it has none.
func Retriable(err error) bool {
	return errors.Is(err, ErrMoving) || errors.Is(err, ErrNotReady) && !errors.Is(err, ErrStopped)
}

func itemError(item string, err error) error { return fmt.Errorf("item %q %w", item, err) }

// Member is one registered member.
type Member struct {
	ID      string
	Address string
	Leaving bool // it gives up what it has, and goes
}

// finding is what the table says of an item.
type finding uint8

const (
	owned     finding = iota
	moving            // a key says so, or the key has just gone
	ownerless         // its owner has vanished
	keyless           // no key: in the workload or not, the table does not know
	unread            // not all has been read, so a key may be there
	stale             // too long ago
)
