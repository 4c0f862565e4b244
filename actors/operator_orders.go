package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Orders to the leader are keys under control/: they stand until they are taken
// back, whoever leads. Their form is that which the control watcher reads.
const (
	orderFreeze   = "freeze"
	orderOverride = "obey" // the word of the first versions
	orderDrain    = "drain/"
	orderPin      = "pins/"
)

// Freeze orders that nothing is planned: every item stays where it is, and
// those of members that vanish wait. Thaw takes it back.
func (o *Operator) Freeze(ctx context.Context) error {
	return advice("freezing", o.write(ctx, o.control, store.Set(o.keys.ControlKey(orderFreeze),
		stamp(), 0)))
}

// Thaw takes Freeze back; it is no error when nothing is frozen.
func (o *Operator) Thaw(ctx context.Context) error {
	return advice("thawing", o.write(ctx, o.control, store.Delete(o.keys.ControlKey(orderFreeze))))
}

// Override releases the brake of a leader that writes nothing because most of the workload or of
// the members vanished at once. It counts for what has vanished by now, once.
func (o *Operator) Override(ctx context.Context) error {
	return advice("overriding the brake", o.write(ctx, o.control,
		store.Set(o.keys.ControlKey(orderOverride), stamp(), 0)))
}

// Drain orders that a member is emptied and gets nothing: it need not be
// registered yet. Undrain takes it back.
func (o *Operator) Drain(ctx context.Context, member string) error {
	if err := protocol.CheckID("member id", member); err != nil {
		return err
	}
	return advice("draining "+member, o.write(ctx, o.control,
		store.Set(o.keys.ControlKey(orderDrain+member), stamp(), 0)))
}

// Undrain takes Drain back; it is no error when the member is not drained.
func (o *Operator) Undrain(ctx context.Context, member string) error {
	if err := protocol.CheckID("member id", member); err != nil {
		return err
	}
	return advice("undraining "+member, o.write(ctx, o.control,
		store.Delete(o.keys.ControlKey(orderDrain+member))))
}

// Pin orders that an item is to be run by this member and no other, even while
// that one is away. Unpin takes it back.
func (o *Operator) Pin(ctx context.Context, item, member string) error {
	if err := protocol.CheckID("item id", item); err != nil {
		return err
	}
	if err := protocol.CheckID("member id", member); err != nil {
		return err
	}
	return advice("pinning "+item, o.write(ctx, o.control,
		store.Set(o.keys.ControlKey(orderPin+item), []byte(member), 0)))
}

// Unpin takes Pin back; it is no error when the item is not pinned.
func (o *Operator) Unpin(ctx context.Context, item string) error {
	if err := protocol.CheckID("item id", item); err != nil {
		return err
	}
	return advice("unpinning "+item, o.write(ctx, o.control,
		store.Delete(o.keys.ControlKey(orderPin+item))))
}

// Pins lists the pinned items and the member of each. Errors as for Status.
func (o *Operator) Pins(ctx context.Context) (map[string]string, error) {
	entries, _, err := o.store.List(ctx, o.keys.Control(), store.Consistent)
	if err != nil {
		return nil, fmt.Errorf("reading the orders: %w", err)
	}
	return readOrders(o.keys, entries).pins, nil
}

// orders is what stands under control/.
type standingOrders struct {
	frozen  bool
	drained []string
	pins    map[string]string
	strange []string
}

func readOrders(keys protocol.Keys, entries []store.Entry) standingOrders {
	o := standingOrders{pins: map[string]string{}}
	for _, e := range entries {
		name := strings.TrimPrefix(e.Key, keys.Control())
		member, drain := strings.CutPrefix(name, orderDrain)
		item, pin := strings.CutPrefix(name, orderPin)
		switch {
		case name == orderFreeze:
			o.frozen = true
		case name == orderOverride, name == "": // nothing that stands; a sentinel
		case drain && protocol.CheckID("member id", member) == nil:
			o.drained = append(o.drained, member)
		case pin && protocol.CheckID("item id", item) == nil &&
			protocol.CheckID("member id", string(e.Value)) == nil:
			o.pins[item] = string(e.Value)
		default:
			o.strange = append(o.strange, e.Key)
		}
	}
	slices.Sort(o.drained)
	return o
}
