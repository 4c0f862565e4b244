package placement

import "math/bits"

// tournament is a binary tree over members that keeps the best of those that take part at its root:
// O(1) to ask, O(log m) to update. Each node also knows the most room below it, so that the best
// member with room for a weight is found without asking them all.
type tournament struct {
	leaves int
	best   []int32 // by node; the root is 1; none where nobody takes part
	room   []uint64
	before func(a, b int32) bool // a is better; ties go to the left, the smaller index
}

func newTournament(members int, before func(a, b int32) bool) *tournament {
	n := 1 << bits.Len(uint(max(members, 1)-1))
	t := &tournament{leaves: n, best: make([]int32, 2*n), room: make([]uint64, 2*n), before: before}
	for k := range t.best {
		t.best[k] = none
	}
	return t
}

// enter lets member j take part with some room, without playing; play has to follow.
func (t *tournament) enter(j int32, room uint64) {
	t.best[t.leaves+int(j)], t.room[t.leaves+int(j)] = j, room
}

func (t *tournament) play() {
	for k := t.leaves - 1; k > 0; k-- {
		t.match(k)
	}
}

// update must be called whenever what before says about j has changed.
func (t *tournament) update(j int32, room uint64) {
	t.enter(j, room)
	t.replay(j)
}

func (t *tournament) remove(j int32) {
	t.best[t.leaves+int(j)], t.room[t.leaves+int(j)] = none, 0
	t.replay(j)
}

func (t *tournament) replay(j int32) {
	for k := (t.leaves + int(j)) / 2; k > 0; k /= 2 {
		t.match(k)
	}
}

func (t *tournament) match(k int) {
	left, right := t.best[2*k], t.best[2*k+1]
	if left == none || right != none && t.before(right, left) {
		left = right
	}
	t.best[k] = left
	t.room[k] = max(t.room[2*k], t.room[2*k+1])
}

func (t *tournament) winner() int32 { return t.best[1] }

// winnerWith returns the best member that has room for w, or none.
func (t *tournament) winnerWith(w uint64) int32 { return t.search(1, w, none) }

func (t *tournament) search(k int, w uint64, found int32) int32 {
	j := t.best[k]
	if j == none || t.room[k] < w || found != none && !t.before(j, found) {
		return found
	}
	if t.room[t.leaves+int(j)] >= w {
		return j
	}
	return t.search(2*k+1, w, t.search(2*k, w, found))
}
