package placement

import (
	"cmp"
	"slices"
)

// pin is what becomes of one pinned item.
type pin struct {
	item int32
	to   int32  // where it will be: its pin; its owner, if it has to wait there; none
	why  string // why it is not at its pin
}

// settlePins finds a place for every item that is pinned, and adds it to load. Pinned items go
// before all others: these can go elsewhere. The result is ordered by item.
//
// The order in which they ask for room must not change while a plan is being carried out, or a
// second plan would choose others. So those that are where they belong come first, and all the rest
// by index alone, be they free, leaving or held elsewhere: an item that was chosen can only
// advance.
func (c *census) settlePins(load []uint64) []pin {
	if c.pinned == 0 {
		return nil
	}
	pins := make([]pin, 0, c.pinned)
	for i := range c.items {
		if c.items[i].Pin != None {
			pins = append(pins, pin{item: int32(i), to: none})
		}
	}
	order := make([]int32, len(pins))
	for k := range order {
		order[k] = int32(k)
	}
	rank := func(it *Item) int {
		switch {
		case it.Owner != it.Pin:
			return 2
		case it.Leaving:
			return 1
		}
		return 0
	}
	slices.SortFunc(order, func(x, y int32) int {
		a, b := &c.items[pins[x].item], &c.items[pins[y].item]
		return cmp.Or(cmp.Compare(a.Pin, b.Pin), cmp.Compare(rank(a), rank(b)), cmp.Compare(x, y))
	})
	for _, k := range order {
		p, it := &pins[k], &c.items[pins[k].item]
		switch {
		case uint32(it.Pin.index()) >= uint32(len(c.members)):
			p.why = WhyPinAbsent
		case c.members[it.Pin.index()].Drain:
			p.why = WhyPinDrained
		case !c.fits(load, it.Pin.index(), it.weight()):
			p.why = WhyPinNoRoom
		default:
			p.to = it.Pin.index()
			load[p.to] += it.weight()
		}
	}
	// The others wait where they are, as far as their owner may keep them.
	for _, leaving := range []bool{false, true} {
		for k := range pins {
			p, it := &pins[k], &c.items[pins[k].item]
			o := c.owner(it)
			if p.to != none || o == none || o == it.Pin.index() || it.Leaving != leaving {
				continue
			}
			if c.fits(load, o, it.weight()) {
				p.to = o
				load[o] += it.weight()
			}
		}
	}
	return pins
}

// fits tells whether member j can take w more.
func (c *census) fits(load []uint64, j int32, w uint64) bool {
	return load[j] <= c.limits[j] && w <= c.limits[j]-load[j]
}
