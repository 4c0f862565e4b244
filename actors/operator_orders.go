package actors

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// As returns an operator whose orders say who gave them and who took them back, such as
// "user@host": the event log shows it. Everybody who may read the orders can read it. A text that
// holds control characters or more than 256 bytes is left out. Orders to freeze, drain and restart
// say it themselves. Of the others the last transaction alone says it, so of two that the leader
// sees in one look the event of the first may not name anybody.
func (o *Operator) As(who string) *Operator {
	signing := *o
	signing.by = who
	return &signing
}

// Freeze orders that nothing is planned: every item stays where it is, and
// those of members that vanish wait. Thaw takes it back.
func (o *Operator) Freeze(ctx context.Context) error {
	return advice("freezing", o.write(ctx, o.control,
		store.Set(o.keys.Freeze(), protocol.SignOrder(stamp(), o.by), 0)))
}

// Thaw takes Freeze back; it is no error when nothing is frozen.
func (o *Operator) Thaw(ctx context.Context) error {
	return advice("thawing", o.write(ctx, o.control, store.Delete(o.keys.Freeze())))
}

// Override releases the brake of a leader that writes nothing because most of the workload or of
// the members vanished at once. It counts for what has vanished by now, once.
func (o *Operator) Override(ctx context.Context) error {
	return advice("overriding the brake", o.write(ctx, o.control,
		store.Set(o.keys.Override(), stamp(), 0)))
}

// Drain orders that a member is emptied, within the move budget ([Config.MoveBudget]), and gets
// nothing: it need not be registered yet. Undrain takes it back.
func (o *Operator) Drain(ctx context.Context, member string) error {
	return o.DrainBy(ctx, member, time.Time{})
}

// DrainBy is Drain with a deadline: what the member has then, by the leader's clock, it gives up at
// once, whatever the move budget. A deadline that has passed makes it give up all at once, a zero
// one is none. An order that stands already gets this deadline.
func (o *Operator) DrainBy(ctx context.Context, member string, deadline time.Time) error {
	return o.orderMember(ctx, "draining", member, store.Set(o.keys.Drain(member),
		protocol.SignOrder(protocol.EncodeDrain(time.Now(), deadline), o.by), 0))
}

// orderMember writes an order about a member.
func (o *Operator) orderMember(ctx context.Context, what, member string, order store.Op) error {
	if err := protocol.CheckID("member id", member); err != nil {
		return err
	}
	return advice(what+" "+member, o.write(ctx, o.control, order))
}

// ItemsLeft counts the items that a member holds, those included that it is about to release. It
// reads their names and nothing else. Errors: [ErrInvalid], [ErrUnreachable], [ErrDenied].
func (o *Operator) ItemsLeft(ctx context.Context, member string) (int, error) {
	if err := protocol.CheckID("member id", member); err != nil {
		return 0, err
	}
	names, _, err := o.store.ListKeys(ctx, o.keys.AssignmentsOf(member), "")
	if err != nil {
		return 0, fmt.Errorf("counting the items of %s: %w", member, err)
	}
	left := 0
	for _, name := range names {
		if _, item, ok := o.keys.ParseAssignment(name); ok && item != "" {
			left++
		}
	}
	return left, nil
}

// IsDrained tells whether an order to drain a member stands: one small read. Errors: [ErrInvalid],
// [ErrUnreachable], [ErrDenied].
func (o *Operator) IsDrained(ctx context.Context, member string) (bool, error) {
	if err := protocol.CheckID("member id", member); err != nil {
		return false, err
	}
	_, found, _, err := o.store.Get(ctx, o.keys.Drain(member), store.Consistent)
	return found, advice("looking whether "+member+" is drained", err)
}

// Restart orders that the work of items is stopped and started once more, at the member that has
// it, under the same fencing token and with the payload that the item has then. An order is about
// the work that was granted before it: it takes effect once at most, and none on an item without an
// owner or on its way. The leader passes it on; while it is frozen or braked, later. Members of
// versions before this one heed it not. The order's key stays.
//
// An item that is quarantined ([ItemQuarantined]) is taken out of that: it is placed like a new
// one, and may fail anew as often as any other.
func (o *Operator) Restart(ctx context.Context, items ...string) error {
	for _, id := range items {
		if err := protocol.CheckID("item id", id); err != nil {
			return err
		}
	}
	done := 0
	for part := range slices.Chunk(items, store.MaxOps-2) {
		var ops []store.Op
		for _, id := range part {
			ops = append(ops, store.Set(o.keys.RestartItem(id),
				protocol.SignOrder(stamp(), o.by), 0))
		}
		if err := o.write(ctx, o.control, ops...); err != nil {
			return fmt.Errorf("restarting: the orders for %d of %d items are given: %w", done,
				len(items), err)
		}
		done += len(part)
	}
	return nil
}

// RestartMember is Restart for all items that a member has.
func (o *Operator) RestartMember(ctx context.Context, member string) error {
	return o.orderMember(ctx, "restarting the work of", member,
		store.Set(o.keys.RestartMember(member), protocol.SignOrder(stamp(), o.by), 0))
}

// Owns tells whether an item is granted to a member, which is not asked to give it up: one small
// read. Errors: [ErrInvalid], [ErrUnreachable], [ErrDenied].
func (o *Operator) Owns(ctx context.Context, member, item string) (bool, error) {
	if err := cmp.Or(protocol.CheckID("member id", member),
		protocol.CheckID("item id", item)); err != nil {
		return false, err
	}
	key := o.keys.Assignment(member, item)
	if err := store.CheckKey("assignment", key); err != nil {
		return false, nil // no member with this id can have this item
	}
	e, found, _, err := o.store.Get(ctx, key, store.Consistent)
	if err != nil || !found {
		return false, advice("looking at "+item, err)
	}
	a, _, _ := o.keys.ReadAssignment(e)
	return a.State == protocol.StateOwn && !a.Unreadable, nil
}

// Undrain takes Drain back; it is no error when the member is not drained.
func (o *Operator) Undrain(ctx context.Context, member string) error {
	return o.orderMember(ctx, "undraining", member, store.Delete(o.keys.Drain(member)))
}

// Pin orders that an item is to be run by this member and no other, even while
// that one is away. Unpin takes it back.
func (o *Operator) Pin(ctx context.Context, item, member string) error {
	return o.tie(ctx, item, member, o.keys.Pin(item), o.keys.Prefer(item))
}

// Prefer orders that an item is run by this member while that one takes items and has room, and by
// any other one else: it goes back there when the member comes back, after the leader soak. It
// replaces Pin, as Pin replaces it, and Unpin takes it back. Leaders of versions before this one
// heed it not.
func (o *Operator) Prefer(ctx context.Context, item, member string) error {
	return o.tie(ctx, item, member, o.keys.Prefer(item), o.keys.Pin(item))
}

// tie writes an order that names the member of an item, in the place of another such order.
func (o *Operator) tie(ctx context.Context, item, member, order, other string) error {
	if err := cmp.Or(protocol.CheckID("item id", item),
		protocol.CheckID("member id", member)); err != nil {
		return err
	}
	return advice("pinning "+item, o.write(ctx, o.control,
		store.Set(order, []byte(member), 0), store.Delete(other)))
}

// Unpin takes Pin and Prefer back; it is no error when the item is not pinned.
func (o *Operator) Unpin(ctx context.Context, item string) error {
	if err := protocol.CheckID("item id", item); err != nil {
		return err
	}
	return advice("unpinning "+item, o.write(ctx, o.control,
		store.Delete(o.keys.Pin(item)), store.Delete(o.keys.Prefer(item))))
}

// Pins lists the pinned items and the member of each. Errors as for Status.
func (o *Operator) Pins(ctx context.Context) (map[string]string, error) {
	orders, err := o.orders(ctx)
	return orders.Pins, err
}

// Preferred lists the items that an operator prefers to have on a member, and the member of each.
// Errors as for Status.
func (o *Operator) Preferred(ctx context.Context) (map[string]string, error) {
	orders, err := o.orders(ctx)
	return orders.Preferred, err
}

func (o *Operator) orders(ctx context.Context) (protocol.Orders, error) {
	entries, _, err := o.store.List(ctx, o.keys.Control(), store.Consistent)
	if err != nil {
		return protocol.Orders{}, fmt.Errorf("reading the orders: %w", err)
	}
	return o.keys.ReadOrders(entries, skip), nil
}

// skip passes over what is strange: Status names it.
func skip(store.Entry, string) {}
