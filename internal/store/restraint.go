package store

import (
	"math/rand/v2"
	"sync"
	"time"
)

// restraint keeps a client from a Consul that is busy: an answer that takes long is followed by a
// pause that grows with the square of its time. So however many clients ask at once, few of them
// wait for an answer at one time, and answers come in time: 1,000 clients that ask a Consul of 300
// answers a second wait for 0.8 s. Without pauses they would wait for 3 s, and lose their leases.
// Renewals and reports are not held back, nor are long polls, nor callers who have set a deadline.
//
// A Consul that is far away is not busy: what it takes at the least is no reason for a pause.
type restraint struct {
	mu    sync.Mutex
	n     int           // answers so far
	least time.Duration // that one of them took
	until time.Time     // when the pause is over
}

const (
	unhurried    = 250 * time.Millisecond // an answer within it is followed by no pause
	longestPause = 5 * time.Second
	enough       = 8 // answers tell how far away Consul is
)

// rest is how long to wait before the next request.
func (r *restraint) rest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until.IsZero() {
		return 0
	}
	return time.Until(r.until)
}

// answered takes in how long an answer took to begin; pauses: it may be followed by one.
func (r *restraint) answered(after time.Duration, pauses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n == 1 || after < r.least {
		r.least = after
	}
	late := after - unhurried
	if r.n > enough {
		late = after - max(unhurried, 2*r.least)
	}
	if late <= 0 || !pauses {
		return
	}
	late = min(late, time.Second)
	pause := min(late*time.Duration(late.Milliseconds())/100, longestPause)
	r.until = time.Now().Add(pause/2 + rand.N(pause+1))
}
