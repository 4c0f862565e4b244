//go:build unix

package guard

import (
	"encoding/gob"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// link is the owner's end of one guard process. It ends with that process and is never used again.
type link struct {
	in        *os.File // commands; its end without cmdEnd tells the guard that its owner is dead
	events    *os.File
	destroy   func()        // kills the guard process
	destroyed chan struct{} // closed when it has

	mu       sync.Mutex
	jobs     map[uint64]*job
	nextID   uint64
	queue    []command
	leases   []lease // to be sent before the queue; the newest of each epoch only
	goodbye  *Goodbye
	kill     bool          // all commands, before all else
	killed   bool          // kill was said: no lease is passed on any more
	closed   bool          // takes no more jobs
	ending   bool          // nothing but the end is sent any more
	pings    int           // sent
	pongs    int           // that came back
	worked   bool          // it has started a command or seen one's end since hasWorked was asked
	lockID   string        // of the lock that it holds; "" while it holds none
	locked   chan struct{} // closed when it holds one
	wake     chan struct{}
	news     chan event    // of the guard itself: a hello, and a lock that came later
	losses   chan event    // of output
	unlinked chan struct{} // closed when Guard.link no longer names it
}

func newLink(in, events *os.File, kill func()) *link {
	destroyed := make(chan struct{})
	return &link{
		in: in, events: events, jobs: map[uint64]*job{},
		destroy:   sync.OnceFunc(func() { kill(); close(destroyed) }),
		destroyed: destroyed, locked: make(chan struct{}),
		wake: make(chan struct{}, 1), news: make(chan event, 2),
		losses: make(chan event, 8), unlinked: make(chan struct{}),
	}
}

// start queues a command that relies on that lease; nil when the link takes no more. Call it with
// Guard.mu held.
func (l *link) start(c command, under *lease) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.nextID++
	c.ID, c.Epoch = l.nextID, under.Epoch
	j := &job{link: l, id: c.ID, name: c.Name, began: time.Now(), under: under,
		startBy: under.startBy(), done: make(chan struct{})}
	l.jobs[j.id] = j
	l.push(c)
	return j
}

func (l *link) stop(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.push(command{Kind: cmdStop, ID: j.id})
}

func (l *link) signal(j *job, sig syscall.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.push(command{Kind: cmdSignal, ID: j.id, Signal: int(sig)})
}

func (l *link) ping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pings++
	l.push(command{Kind: cmdPing})
}

func (l *link) setLease(v lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending || l.killed {
		return
	}
	if n := len(l.leases); n > 0 && l.leases[n-1].Epoch == v.Epoch {
		l.leases[n-1] = v
	} else {
		l.leases = append(l.leases, v)
	}
	l.poke()
}

func (l *link) setGoodbye(b Goodbye) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ending {
		l.goodbye = &b
		l.poke()
	}
}

// end tells the guard process that its owner stops by itself. What is still queued is not sent.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue, l.leases, l.goodbye = nil, nil, nil
	l.push(command{Kind: cmdEnd})
	l.closed, l.ending = true, true
}

// push needs l.mu. The queue holds two commands a job at most, and a ping.
func (l *link) push(c command) {
	if l.ending {
		return
	}
	l.queue = append(l.queue, c)
	l.poke()
}

func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// next takes what is to be sent next; the zero command when nothing is. A lease overtakes what is
// queued: a start may rely on it, and a renewal must not wait behind payloads.
func (l *link) next() (c command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.kill:
		c = command{Kind: cmdKill}
		l.kill = false
	case len(l.leases) > 0:
		c = command{Kind: cmdLease, Lease: l.leases[0]}
		l.leases = l.leases[1:]
	case l.goodbye != nil:
		c = command{Kind: cmdGoodbye, Goodbye: *l.goodbye, Owner: os.Getpid()}
		l.goodbye = nil
	case len(l.queue) > 0:
		c = l.queue[0]
		l.queue[0] = command{} // lets its payload go
		l.queue = l.queue[1:]
		if j := l.jobs[c.ID]; j != nil && c.Kind == cmdStart {
			j.told = bootNanos()
		}
	}
	return c
}

// write sends commands until the pipe fails or stop is closed.
func (l *link) write(stop <-chan struct{}) {
	enc := gob.NewEncoder(l.in)
	for {
		c := l.next()
		if c.Kind == 0 {
			select {
			case <-l.wake:
				continue
			case <-stop:
				return
			}
		}
		if enc.Encode(c) != nil {
			return // the guard is gone, or told to go: its end says the rest
		}
	}
}

// read takes events until the guard's end closes.
func (l *link) read() {
	dec := gob.NewDecoder(l.events)
	for {
		var e event
		if dec.Decode(&e) != nil {
			return
		}
		l.take(e)
	}
}

func (l *link) take(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind {
	case evHello, evLocked:
		if e.Locked && l.lockID == "" {
			l.lockID = e.LockID
			close(l.locked)
		}
		select {
		case l.news <- e:
		default: // no guard says more than these two
		}
	case evOutputLost:
		select {
		case l.losses <- e:
		default: // they come four times a minute
		}
	case evPong:
		l.pongs++
	case evStarted:
		l.worked = true
		if j := l.jobs[e.ID]; j != nil {
			j.pid = e.PID
		}
	case evKilled:
		if j := l.jobs[e.ID]; j != nil {
			j.killed = true
		}
	case evExited:
		l.worked = true
		if j := l.jobs[e.ID]; j != nil {
			delete(l.jobs, e.ID)
			j.exit = e
			close(j.done)
		}
	}
}

// refuse takes no more jobs; those it has go on.
func (l *link) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// started lists the process groups of the commands that run, with their ids.
func (l *link) started() (groups map[int]uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	groups = map[int]uint64{}
	for _, j := range l.jobs {
		if j.pid != 0 {
			groups[j.pid] = j.id
		}
	}
	return groups
}

// ids are those of the commands that are left, but for what the guard process was not told of.
func (l *link) ids() map[uint64]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := map[uint64]bool{}
	for id, j := range l.jobs {
		if j.told != 0 {
			ids[id] = true
		}
	}
	return ids
}

// names lists the commands that are left, or those of them that have these ids.
func (l *link) names(ids map[uint64]bool) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if ids == nil || ids[j.id] {
			names = append(names, j.name)
		}
	}
	slices.Sort(names)
	return names
}

// killAll has everything killed, and takes no more; what is queued will not start.
func (l *link) killAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill, l.killed, l.closed = true, true, true
	l.leases = nil
	l.poke()
}

// idle tells whether no command is left.
func (l *link) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.jobs) == 0
}

func (l *link) idleWithin(limit time.Duration) bool {
	for end := time.Now().Add(limit); !l.idle(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// unkilled returns the leases of the commands that may run and that the guard process has not
// killed. Call it with Guard.mu held.
func (l *link) unkilled() map[*lease]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	leases := map[*lease]bool{}
	for _, j := range l.jobs {
		if !j.killed && j.mayRun() {
			leases[j.under] = true
		}
	}
	return leases
}

// silent tells whether a ping has not been answered yet.
func (l *link) silent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pongs < l.pings
}

// hasWorked tells whether commands have started or ended since it was asked last: a ping waits
// behind those.
func (l *link) hasWorked() (worked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	worked, l.worked = l.worked, false
	return worked
}

func (l *link) holds() (lockID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lockID
}

// fail ends every job but those that are kept: call it when nothing of them is left. No cause means
// that the guard process ended as it was told to; then a job that has not started never will. The
// guard process stood still for stood, if that is not zero.
func (l *link) fail(cause error, stood stand, keep map[uint64]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for id, j := range l.jobs {
		if keep[id] {
			continue
		}
		delete(l.jobs, id)
		j.exit.tellStand(stood, j.began)
		if cause == nil && j.pid == 0 {
			j.exit = event{Code: -1, Reason: NotStarted, Err: "the guard process was told to end"}
		} else {
			j.lost = ErrLost
			if cause != nil {
				j.lost = fmt.Errorf("%w (%w)", ErrLost, cause)
			}
		}
		close(j.done)
	}
}
