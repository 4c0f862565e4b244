package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// As returns an operator whose orders say who gave them and who took them back, such as
// "user@host": the event log shows it. Everybody who may read the orders can read it. A text that
// holds control characters or more than 256 bytes is left out. Orders to freeze, drain and restart
// say it themselves. Of the others the last transaction alone says it, so of two that the leader
// sees in one look the event of the first may not name anybody.
func (c *Client) As(who string) *Client {
	signing := *c
	signing.by = who
	return &signing
}

// Freeze orders that nothing is planned: every item stays where it is, and
// those of members that vanish wait. Thaw takes it back. An order that stands already stays.
func (c *Client) Freeze(ctx context.Context) error {
	return advice("freezing", c.order(ctx, c.keys.Freeze(), stamp()))
}

// order gives an order unless it stands: who gave it, and what it says, stay then.
func (c *Client) order(ctx context.Context, key string, value []byte) error {
	err := c.write(ctx, c.control, store.Create(key, protocol.SignOrder(value, c.by)))
	if errors.Is(err, store.ErrRefused) {
		return nil
	}
	return err
}

// give writes orders about what is named rightly.
func (c *Client) give(ctx context.Context, doing string, misnamed error, orders ...store.Op) error {
	if misnamed != nil {
		return misnamed
	}
	return advice(doing, c.write(ctx, c.control, orders...))
}

// memberID and itemIDs say what is wrong with ids.
func memberID(id string) error { return protocol.CheckID("member id", id) }

func itemIDs(ids ...string) (err error) {
	for _, id := range ids {
		err = cmp.Or(err, protocol.CheckID("item id", id))
	}
	return err
}

// Thaw takes Freeze back; it is no error when nothing is frozen.
func (c *Client) Thaw(ctx context.Context) error {
	return c.give(ctx, "thawing", nil, store.Delete(c.keys.Freeze()))
}

// Override releases the brake of a leader that writes nothing because most of the workload or of
// the members vanished at once. It counts for what has vanished by now, once.
func (c *Client) Override(ctx context.Context) error {
	return c.give(ctx, "overriding the brake", nil, store.Set(c.keys.Override(), stamp(), 0))
}

// Drain orders that a member is emptied, within the leader's move budget, and gets nothing: it need
// not be registered yet. Undrain takes it back. An order that stands already stays, with its
// deadline.
func (c *Client) Drain(ctx context.Context, member string) error {
	if err := memberID(member); err != nil {
		return err
	}
	return advice("draining "+member, c.order(ctx, c.keys.Drain(member),
		protocol.EncodeDrain(time.Now(), time.Time{})))
}

// DrainBy is Drain with a deadline: what the member has then, by the leader's clock, it gives up at
// once, whatever the move budget. A deadline that has passed makes it give up all at once, a zero
// one is none. An order that stands already gets this deadline.
func (c *Client) DrainBy(ctx context.Context, member string, deadline time.Time) error {
	return c.give(ctx, "draining "+member, memberID(member), store.Set(c.keys.Drain(member),
		protocol.SignOrder(protocol.EncodeDrain(time.Now(), deadline), c.by), 0))
}

// ItemsLeft counts the items that a member holds, those included that it is about to release. It
// reads their names and nothing else. Errors: [ErrInvalid], [ErrUnreachable], [ErrDenied].
func (c *Client) ItemsLeft(ctx context.Context, member string) (int, error) {
	if err := memberID(member); err != nil {
		return 0, err
	}
	items, err := c.names(ctx, "counting the items of "+member, c.keys.AssignmentsOf(member),
		func(key string) (string, bool) {
			_, item, ok := c.keys.ParseAssignment(key)
			return item, ok && item != ""
		})
	return len(items), err
}

// IsDrained tells whether an order to drain a member stands: one small read. Errors: [ErrInvalid],
// [ErrUnreachable], [ErrDenied].
func (c *Client) IsDrained(ctx context.Context, member string) (bool, error) {
	if err := memberID(member); err != nil {
		return false, err
	}
	_, found, _, err := c.store.Get(ctx, c.keys.Drain(member), store.Consistent)
	return found, advice("looking whether "+member+" is drained", err)
}

// Restart orders that the work of items is stopped and started once more, at the member that has
// it, under the same grant and with the payload that the item has then. An order is about
// the work that was granted before it: it takes effect once at most, and none on an item without an
// owner or on its way. The leader passes it on; while it is frozen or braked, later. The order's
// key stays.
//
// An item that is quarantined ([ItemQuarantined]) is taken out of that: it is placed like a new
// one, and may fail anew as often as any other.
func (c *Client) Restart(ctx context.Context, items ...string) error {
	if err := itemIDs(items...); err != nil {
		return err
	}
	done, err := c.each(ctx, c.control, items, func(id string) store.Op {
		return store.Set(c.keys.RestartItem(id), protocol.SignOrder(stamp(), c.by), 0)
	})
	if err != nil {
		return fmt.Errorf("restarting: the orders for %d of %d items are given: %w", done,
			len(items), err)
	}
	return nil
}

// RestartMember is Restart for all items that a member has.
func (c *Client) RestartMember(ctx context.Context, member string) error {
	return c.give(ctx, "restarting the work of "+member, memberID(member),
		store.Set(c.keys.RestartMember(member), protocol.SignOrder(stamp(), c.by), 0))
}

// Owns tells whether an item is granted to a member, which is not asked to give it up: one small
// read. Errors: [ErrInvalid], [ErrUnreachable], [ErrDenied].
func (c *Client) Owns(ctx context.Context, member, item string) (bool, error) {
	if err := cmp.Or(memberID(member), itemIDs(item)); err != nil {
		return false, err
	}
	key := c.keys.Assignment(member, item)
	if err := store.CheckKey("assignment", key); err != nil {
		return false, nil // no member with this id can have this item
	}
	e, found, _, err := c.store.Get(ctx, key, store.Consistent)
	if err != nil || !found {
		return false, advice("looking at "+item, err)
	}
	a, _, _ := c.keys.ReadAssignment(e)
	return a.State == protocol.StateOwn && !a.Unreadable, nil
}

// Undrain takes Drain back; it is no error when the member is not drained.
func (c *Client) Undrain(ctx context.Context, member string) error {
	return c.give(ctx, "undraining "+member, memberID(member), store.Delete(c.keys.Drain(member)))
}

// Pin orders that an item is given to this member and to no other one. While the member is away,
// drained or full, an item that runs elsewhere goes on there, and one that nobody has waits. Unpin
// takes it back.
func (c *Client) Pin(ctx context.Context, item, member string) error {
	return c.tie(ctx, item, member, c.keys.Pin(item), c.keys.Prefer(item))
}

// Prefer orders that an item is run by this member while that one takes items and has room, and by
// any other one else: it goes back there when the member comes back, after the leader soak. It
// replaces Pin, as Pin replaces it, and Unpin takes it back.
func (c *Client) Prefer(ctx context.Context, item, member string) error {
	return c.tie(ctx, item, member, c.keys.Prefer(item), c.keys.Pin(item))
}

// tie writes an order that names the member of an item, in the place of another such order.
func (c *Client) tie(ctx context.Context, item, member, order, other string) error {
	return c.give(ctx, "pinning "+item, cmp.Or(itemIDs(item), memberID(member)),
		store.Set(order, []byte(member), 0), store.Delete(other))
}

// Unpin takes Pin and Prefer back; it is no error when the item is not pinned.
func (c *Client) Unpin(ctx context.Context, item string) error {
	return c.give(ctx, "unpinning "+item, itemIDs(item),
		store.Delete(c.keys.Pin(item)), store.Delete(c.keys.Prefer(item)))
}

// Pins lists the items that an operator has pinned, and those that one prefers to have on a member,
// and the member of each. Errors as for Status.
func (c *Client) Pins(ctx context.Context) (pinned, preferred map[string]string, err error) {
	entries, _, err := c.store.List(ctx, c.keys.Control(), store.Consistent)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the orders: %w", err)
	}
	orders := c.keys.ReadOrders(entries, skip)
	return orders.Pins, orders.Preferred, nil
}

// skip passes over what is unreadable: Status names it.
func skip(store.Entry, string) {}
