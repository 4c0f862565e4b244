package leader

import (
	"time"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/messages"
)

// ledger is what the leader has done so far.
type ledger struct {
	moves map[string]int // by reason: what was granted or moved
	// placed is when each item was given to its owner, for the cooldown.
	placed   map[string]time.Time
	releases map[string]time.Time // of the last plan
	settled  bool                 // by the last plan
	// at is who had each item when nothing was left to do last, and given how many were given to a
	// member since. An item that moved twice, or went and came back, shows. Only for an observer;
	// nil: not begun. A term begins with what it finds as if nothing were left to do then.
	at    map[string]string
	given int
}

func newLedger() ledger {
	return ledger{moves: map[string]int{}, placed: map[string]time.Time{}}
}

// begin notes who has what when the term begins.
func (l *ledger) begin(found known) {
	if l.at != nil {
		return
	}
	l.at = map[string]string{}
	for member, items := range found {
		for item := range items {
			l.at[item] = member
		}
	}
}

// applied takes in an order that was carried out.
func (l *ledger) applied(o *order, cooldown time.Duration) {
	l.moves[o.reason]++
	if o.kind == orderGrant || o.kind == orderReap {
		l.given++
		if cooldown > 0 {
			l.placed[o.item] = time.Now()
		}
	}
}

// cooling says until when items stay where they were placed.
func (l *ledger) cooling(now time.Time, cooldown time.Duration) map[string]time.Time {
	until := make(map[string]time.Time, len(l.placed))
	for item, at := range l.placed {
		if end := at.Add(cooldown); now.Before(end) {
			until[item] = end
		} else {
			delete(l.placed, item)
		}
	}
	return until
}

// rested says what it took since nothing was left to do last, and notes that nothing is.
func (l *ledger) rested(in *inputs) messages.Settled {
	b := in.newBoard(&plan{})
	at := make(map[string]string, len(b.items))
	for i, item := range b.items {
		if item.Owner != placement.None {
			at[item.ID] = b.keys[i].member
		}
	}
	settled := messages.Settled{Moves: l.given, Minimum: l.minimum(in, b)}
	l.at, l.given = at, 0
	return settled
}

// minimum is how many items the planner gives to a member when all is as now, but where the items
// are, which is as it was when nothing was left to do last.
func (l *ledger) minimum(in *inputs, b *board) int {
	if l.given == 0 {
		return 0
	}
	for i := range b.items {
		item := &b.items[i]
		item.Owner, item.Leaving = placement.None, false
		if member, had := l.at[item.ID]; had {
			item.Owner = b.places[member] // None: it is not there
		}
	}
	n := 0
	for _, move := range b.compute().Moves {
		if move.To != placement.None {
			n++
		}
	}
	return n
}
