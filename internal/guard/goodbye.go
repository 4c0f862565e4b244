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
//   - every command is gone, and the lock is held, if there is a LockFile;
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

// say returns when the goodbye has been said or will not be said.
func (b goodbye) say(died time.Time, lock *locker, say func(context.Context, []byte)) {
	if len(b.Words) == 0 || b.Wait > b.Limit {
		return
	}
	limit, due := died.Add(b.Limit), died.Add(b.Wait)
	succeeded := func() bool { return lock != nil && successorPresent(lock.path) }
	for {
		// A dead owner is not present: the kernel closes its files before it gives us a new parent.
		dead := os.Getppid() != b.owner
		if time.Now().After(limit) || dead && succeeded() {
			return
		}
		if dead && !time.Now().Before(due) && (lock == nil || lock.held.Load()) {
			break
		}
		time.Sleep(successorCheck)
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	said := make(chan struct{})
	go func() { defer close(said); say(ctx, b.Words) }()
	for ctx.Err() == nil && !succeeded() {
		select {
		case <-said:
			return
		case <-time.After(successorCheck):
		}
	}
	cancel()
	select {
	case <-said:
	case <-time.After(goodbyeReturn):
	}
}
