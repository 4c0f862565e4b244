package routing

import "time"

// moveWindow is for how long an item whose key has gone counts as being moved before it counts as free: a free
// item is granted within 4 x merge of the leader, 1 s by default, once the leader has heard of it.
const moveWindow = 5 * time.Second

// recently remembers which items have lost their key within the window.
type recently struct {
	at    map[string]time.Time
	queue []string // in the order of their times, with some that are not in at any more
}

func newRecently() recently { return recently{at: map[string]time.Time{}} }

func (r *recently) add(item string, now time.Time) {
	for len(r.queue) > 0 {
		first := r.queue[0]
		if at, ok := r.at[first]; ok && now.Sub(at) < moveWindow {
			break
		}
		delete(r.at, first)
		r.queue = r.queue[1:]
	}
	r.at[item] = now
	r.queue = append(r.queue, item)
}

func (r *recently) drop(item string) {
	if len(r.at) > 0 {
		delete(r.at, item)
	}
}

func (r *recently) has(item string, now time.Time) bool {
	at, ok := r.at[item]
	return ok && now.Sub(at) < moveWindow
}
