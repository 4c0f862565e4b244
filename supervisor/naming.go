package supervisor

import "sync"

// naming finds the stacks of children that are late, of all supervisors. The runtime takes one
// profile at a time, so that whoever asks meanwhile shares the next one; on a loaded machine most
// of them have ended by then, and where all have none is taken.
type naming struct {
	turn sync.Mutex // held while a profile is taken
	mu   sync.Mutex
	next *asking // who asks for the next profile
}

type asking struct {
	late   []*run
	stacks map[string]string
	done   bool // these two belong to who has the turn
}

var namer naming

// stacksOf gives those that still run, with their stacks.
func (n *naming) stacksOf(late []*run) ([]*run, map[string]string) {
	n.mu.Lock()
	if n.next == nil {
		n.next = &asking{}
	}
	mine := n.next
	mine.late = append(mine.late, late...)
	n.mu.Unlock()
	n.turn.Lock()
	defer n.turn.Unlock()
	if !mine.done {
		n.mu.Lock()
		n.next = nil // whoever comes now comes too late for this one
		n.mu.Unlock()
		var ids []string
		for _, r := range lingering(mine.late) {
			ids = append(ids, r.c.id())
		}
		mine.stacks, mine.done = stacksOf(ids), true
	}
	return lingering(late), mine.stacks
}
