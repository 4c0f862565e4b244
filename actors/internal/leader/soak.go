package leader

import (
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// soak tells whether changes have come to rest. Free items are placed when they have for a moment,
// and items are moved for balance when they have for the whole soak. A change is what says
// otherwise where items are to be: who is there, which items of which weight, where operators want
// them. A payload is none, nor is an order to restart: these may come all the time, and a member
// that joins is to have its share.
type soak struct {
	quiet time.Time // the last change
	first time.Time // the first change that no plan has placed items upon yet; zero: there is none
	seen  scene
}

// scene is what says where items are to be.
type scene struct {
	members  facts.Members
	workload facts.Workload
	control  facts.Control
}

// begin begins both soaks.
func (s *soak) begin(now time.Time, seen scene) {
	s.quiet, s.seen = now, seen
	if s.first.IsZero() {
		s.first = now
	}
}

// see takes the states in. It reports whether they have changed: then the soaks begin anew.
func (s *soak) see(now time.Time, seen scene) (changed bool) {
	if seen.index() == s.seen.index() {
		return false
	}
	if seen.same(s.seen) {
		s.seen = seen
		return false
	}
	s.begin(now, seen)
	return true
}

// rest says what has come to rest.
func (s *soak) rest(now time.Time, set actor.Settings) rest {
	return rest{place: s.first.IsZero() || !now.Before(s.placeAt(set)),
		balance: !now.Before(s.quiet.Add(set.LeaderSoak))}
}

// placeAt is when free items are placed: others may follow, but not for ever.
func (s *soak) placeAt(set actor.Settings) time.Time {
	return actor.Earliest(s.quiet.Add(set.Merge), s.first.Add(4*set.Merge))
}

// planned takes in that nothing was left to write by a plan. It returns when there is, if that
// waits for a soak.
func (s *soak) planned(r rest, waiting bool, set actor.Settings) (next time.Time) {
	switch {
	case !r.place:
		if waiting {
			return s.placeAt(set)
		}
		return time.Time{}
	case waiting && !r.balance:
		next = s.quiet.Add(set.LeaderSoak)
	}
	s.first = time.Time{}
	return next
}

// index tells one view of each state from others.
func (x scene) index() [6]uint64 {
	return [...]uint64{x.members.Term, x.members.Index, x.workload.Term, x.workload.Index,
		x.control.Term, x.control.Index}
}

// same tells whether two say the same of where items are to be.
func (x scene) same(y scene) bool {
	return x.members.Term == y.members.Term && x.members.Index == y.members.Index &&
		x.workload.Term == y.workload.Term && sameItems(x.workload.Items, y.workload.Items) &&
		x.control.Term == y.control.Term && samePlaces(x.control, y.control)
}

// sameItems tells whether two workloads hold the same items, of the same weights.
func sameItems(x, y messages.Table[facts.WorkItem]) bool {
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
func samePlaces(x, y facts.Control) bool {
	return x.Freeze == y.Freeze && x.Override == y.Override && messages.Same(x.Drain, y.Drain) &&
		messages.Same(x.Pins, y.Pins) && messages.Same(x.Preferred, y.Preferred)
}
