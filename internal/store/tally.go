package store

import "time"

// tally counts what comes again and again.
type tally struct {
	n    int
	last time.Time
}

// tallyFor is how long nothing may come before the count begins anew.
const tallyFor = 10 * time.Minute

// more counts one more, and returns how many there are.
func (t *tally) more() int {
	t.n, t.last = t.count()+1, time.Now()
	return t.n
}

// count returns how many there are by now.
func (t *tally) count() int {
	if time.Since(t.last) > tallyFor {
		return 0
	}
	return t.n
}
