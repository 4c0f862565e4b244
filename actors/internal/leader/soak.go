package leader

import (
	"time"

	"github.com/coordd/coordd/messages"
)

// Free items are placed when changes have come to rest for a moment, and items are moved for
// balance when they have for the whole soak. A change is what says otherwise where items are to be:
// who is there, which items of which weight, where operators want them. A payload is none, nor is
// an order to restart: these may come all the time, and a member that joins is to have its share.

// heeded are the states that the assigner has taken in.
type heeded struct {
	members  messages.Members
	workload messages.Workload
	control  messages.Control
}

// index tells one view of each state from others.
func (h heeded) index() [6]uint64 {
	return [...]uint64{h.members.Term, h.members.Index, h.workload.Term, h.workload.Index,
		h.control.Term, h.control.Index}
}

// same tells whether two say the same of where items are to be.
func (h heeded) same(o heeded) bool {
	return h.members.Term == o.members.Term && h.members.Index == o.members.Index &&
		h.workload.Term == o.workload.Term && sameItems(h.workload.Items, o.workload.Items) &&
		h.control.Term == o.control.Term && samePlaces(h.control, o.control)
}

// sameItems tells whether two workloads hold the same items, of the same weights.
func sameItems(x, y messages.Table[messages.WorkItem]) bool {
	if x.Len() != y.Len() {
		return false
	}
	for i := range x.Len() {
		id, w := x.At(i)
		if other, v := y.At(i); id != other || w.Weight != v.Weight {
			return false
		}
	}
	return true
}

// samePlaces tells whether two views of the orders say the same of where items are to be.
func samePlaces(x, y messages.Control) bool {
	return x.Freeze == y.Freeze && x.Override == y.Override && messages.Same(x.Drain, y.Drain) &&
		messages.Same(x.Pins, y.Pins) && messages.Same(x.Preferred, y.Preferred)
}

func (a *Assigner) states() heeded {
	return heeded{a.members.Get(), a.workload.Get(), a.control.Get()}
}

// changed begins the soaks anew.
func (a *Assigner) changed() {
	a.quiet, a.heeded = time.Now(), a.states()
	if a.first.IsZero() {
		a.first = a.quiet
	}
}

// heed takes the states in, and begins the soaks anew if they have changed. It reports whether it
// has.
func (a *Assigner) heed() (changed bool) {
	now := a.states()
	if now.index() == a.heeded.index() {
		return false
	}
	if now.same(a.heeded) {
		a.heeded = now
		return false
	}
	a.changed()
	return true
}
