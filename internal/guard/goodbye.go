//go:build unix

package guard

import (
	"context"
	"os"
	"time"
)

const (
	// successorCheck is how soon a successor of a dead owner is noticed.
	successorCheck = 10 * time.Millisecond
	// goodbyeReturn is how long the function that says a goodbye has to return once its context has
	// ended.
	goodbyeReturn = time.Second
)

// Goodbye is what the guard process says for its owner when the owner has died. Only the function
// that is given to Main understands the words. They are said once, and only when
//
//   - the owner is dead: its pipe has closed without an end, and the kernel has given this process
//     another parent;
//   - every command is gone, and the lock is held: nothing is left of an earlier guard process
//     either;
//   - Wait has passed since the death, and no other process is present at the LockFile (see
//     Announce): a successor has use for what the dead owner leaves.
//
// The guard process stops trying when a successor appears, or when Limit has passed since the
// death. If Wait is above Limit it never tries. A frozen owner is not dead. When the guard process
// is killed, nobody says anything.
type Goodbye struct {
	Words       []byte // none: nothing is said
	Wait, Limit time.Duration
}

// Goodbye sets what is to be said, from now on, if this process dies. It never blocks and the
// newest call wins.
func (g *Guard) Goodbye(b Goodbye) {
	if b.Words == nil {
		b.Words = []byte{} // to be told apart from never having been called
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.goodbye = b
	if g.link != nil {
		g.link.setGoodbye(b)
	}
}

// goodbye is a Goodbye at the guard process, with the owner that sent it.
type goodbye struct {
	Goodbye
	owner int // process id
}

// say returns when the goodbye has been said or will not be said. The result is that of the func.
func (b goodbye) say(died time.Time, lock *locker, say func(context.Context, []byte) bool) (
	forgotten bool) {
	if len(b.Words) == 0 || b.Wait > b.Limit {
		return false
	}
	limit := died.Add(b.Limit)
	for ; os.Getppid() == b.owner; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			return false
		}
	}
	// From here on the owner is not present: the kernel has closed its files before.
	for due := died.Add(b.Wait); ; time.Sleep(successorCheck) {
		if successorPresent(lock.path) || time.Now().After(limit) {
			return false
		}
		if !time.Now().Before(due) && lock.clean.Load() {
			break
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	said := make(chan bool, 1)
	go func() { said <- say(ctx, b.Words) }()
	for {
		select {
		case forgotten := <-said:
			return forgotten
		case <-time.After(successorCheck):
		}
		if ctx.Err() == nil && !successorPresent(lock.path) {
			continue
		}
		cancel()
		select {
		case forgotten := <-said:
			return forgotten
		case <-time.After(goodbyeReturn):
			return false
		}
	}
}
