package routing

import "time"

// moveWindow is for how long an item whose key has gone counts as being moved before it counts as
// free, or as no item. A free item is granted within 4 x merge once the leader has heard of it, 1 s
// by default; when the leader itself has left, once there is another.
const moveWindow = 10 * time.Second

// recentlyReleased remembers which items have lost their key within the window.
type recentlyReleased struct {
	at    map[string]time.Time
	queue []string // in the order of their times, with some that are not in at any more
}

func newRecentlyReleased() recentlyReleased { return recentlyReleased{at: map[string]time.Time{}} }

func (r *recentlyReleased) add(item string, now time.Time) {
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

func (r *recentlyReleased) drop(item string) {
	if len(r.at) > 0 {
		delete(r.at, item)
	}
}

// has tells whether an item without a key has lost it within the window.
func (r *recentlyReleased) has(item string, now time.Time) bool {
	at, ok := r.at[item]
	return ok && now.Sub(at) < moveWindow
}
