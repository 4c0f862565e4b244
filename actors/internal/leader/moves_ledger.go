package leader

import (
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/messages"
)

// movesLedger compares the moves that were made from one rest to the next with those that the
// planner needs for it, knowing the end: an item that moved twice, or went and came back, shows. It
// is kept only for an observer. A term begins with what it finds as if that were a rest.
type movesLedger struct {
	at    map[string]string // who had each item at the last rest; nil: not begun
	moves int               // items given to a member since then
}

// begin notes who has what when the term begins.
func (l *movesLedger) begin(found map[string]map[string]messages.Assignment) {
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

// rested says what it took since the last rest, and notes this one.
func (l *movesLedger) rested(s *snapshot) messages.Settled {
	now := s.sort(&draft{})
	at := make(map[string]string, len(now.items))
	for i, item := range now.items {
		if item.Owner != placement.None {
			at[item.ID] = now.keys[i].member
		}
	}
	settled := messages.Settled{Moves: l.moves, Minimum: l.minimum(s, now)}
	l.at, l.moves = at, 0
	return settled
}

// minimum is how many items the planner gives to a member when all is as now, but where the items
// are, which is as it was at the last rest.
func (l *movesLedger) minimum(s *snapshot, now *sorted) int {
	if l.moves == 0 {
		return 0
	}
	for i := range now.items {
		item := &now.items[i]
		item.Owner, item.Leaving = placement.None, false
		if member, had := l.at[item.ID]; had {
			if j, here := s.members.Find(member); here {
				item.Owner = placement.At(j)
			}
		}
	}
	n := 0
	for _, move := range s.compute(now).Moves {
		if move.To != placement.None {
			n++
		}
	}
	return n
}
