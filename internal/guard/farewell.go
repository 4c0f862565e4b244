//go:build unix

package guard

import (
	"context"
	"os"
	"time"
)

const (
	// heirCheck is how soon a successor of a dead owner is noticed.
	heirCheck = 10 * time.Millisecond
	// lastWord is how long whoever says a farewell has to return once its context has ended.
	lastWord = time.Second
)

// Farewell is what the guard process says for its owner when that has died. The words mean
// something to Main's caller only. They are said once, and only when
//
//   - the owner is dead: its pipe has closed without an end, and the kernel has given this process
//     another parent;
//   - every command is gone, and the lock is held: nothing is left of an earlier guard process
//     either;
//   - Wait has passed since the death, and no other process attends the LockFile (see Attend): a
//     successor has use for what the dead one leaves.
//
// They are cut short when a successor attends after all, or when Limit has passed since the death;
// with a Wait above the Limit they are never said. A frozen owner is not dead. When the guard
// process is killed, nobody says anything.
type Farewell struct {
	Words       []byte // none: nothing is said
	Wait, Limit time.Duration
}

// Farewell tells what is to be said, from now on, should this process die. It never blocks and the
// newest call wins.
func (g *Guard) Farewell(f Farewell) {
	if f.Words == nil {
		f.Words = []byte{} // to be told apart from never having been called
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.farewell = f
	if g.link != nil {
		g.link.setFarewell(f)
	}
}

// farewell is one at the guard process, with who would have it said.
type farewell struct {
	Farewell
	owner int // process id
}

// say returns when the farewell is said, or not to be said, and what say made of it.
func (f farewell) say(died time.Time, lock *locker, say func(context.Context, []byte) bool) (
	forgotten bool) {
	if len(f.Words) == 0 || f.Wait > f.Limit {
		return false
	}
	limit := died.Add(f.Limit)
	for ; os.Getppid() == f.owner; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			return false
		}
	}
	// From here on the owner attends no more: the kernel has closed its files before.
	for due := died.Add(f.Wait); ; time.Sleep(heirCheck) {
		if attended(lock.path) || time.Now().After(limit) {
			return false
		}
		if !time.Now().Before(due) && lock.clean.Load() {
			break
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	said := make(chan bool, 1)
	go func() { said <- say(ctx, f.Words) }()
	for {
		select {
		case forgotten := <-said:
			return forgotten
		case <-time.After(heirCheck):
		}
		if ctx.Err() == nil && !attended(lock.path) {
			continue
		}
		cancel()
		select {
		case forgotten := <-said:
			return forgotten
		case <-time.After(lastWord):
			return false
		}
	}
}
