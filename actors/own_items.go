package actors

import (
	"time"

	"github.com/coordd/coordd/actors/operator"
)

// OwnItems is what a member knows of the work of the items that are assigned to it.
type OwnItems struct {
	// Known: the member is registered, and has read what is assigned to it since.
	Known bool
	// States counts the items by what their work does.
	States map[operator.ItemState]int
	// Looping names some of the items whose work ends again and again, by their ids, and Stuck some
	// whose work has not ended within the StopTimeout.
	Looping, Stuck []string
	// ClearAt is when items that wait for a former process of this member may run; zero: none do.
	ClearAt time.Time
}

// OwnItems says what the work of this member's items does now. It asks nobody: it is what the
// member tells others within some seconds.
func (c *Coordinator) OwnItems() OwnItems {
	m, view := c.cells.membership.Get(), c.cells.assignments.Get()
	if !m.In(c.cells.session.Get().ID) || view.Index < m.Index {
		// Its registration is over: all that it runs is told to stop.
		return OwnItems{States: map[operator.ItemState]int{
			operator.ItemStopping: c.cells.holdings.Get().Active()}}
	}
	s := c.cells.records.Summary(time.Now(), m, view, c.cells.holdings.Get())
	own := OwnItems{Known: true, States: map[operator.ItemState]int{}}
	for state, n := range s.Counts {
		own.States[operator.ItemState(state)] = n
	}
	if own.States[operator.ItemWaiting] > 0 {
		own.ClearAt = s.ClearAt
	}
	for _, i := range s.Items {
		switch operator.ItemState(i.State) {
		case operator.ItemLooping:
			own.Looping = append(own.Looping, i.ID)
		case operator.ItemStuck:
			own.Stuck = append(own.Stuck, i.ID)
		}
	}
	return own
}
