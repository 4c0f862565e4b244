//go:build unix

package guard

import (
	"encoding/gob"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// link is the owner's end of one guard process. It ends with that process and is never used again.
type link struct {
	in     *os.File // commands; its end without cmdEnd tells the guard that its owner is dead
	events *os.File

	mu       sync.Mutex
	jobs     map[uint64]*job
	nextID   uint64
	queue    []command
	lease    *lease // to be sent before the queue; the newest only
	farewell *Farewell
	closed   bool // takes no more jobs
	ending   bool // nothing but the end is sent any more
	pongs    int
	locked   bool
	wake     chan struct{}
	news     chan event    // of the guard itself: a hello, and a lock that came later
	unlinked chan struct{} // closed when Guard.link no longer names it
}

func newLink(in, events *os.File) *link {
	return &link{
		in: in, events: events, jobs: map[uint64]*job{},
		wake: make(chan struct{}, 1), news: make(chan event, 2), unlinked: make(chan struct{}),
	}
}

// start queues a command; nil when the link takes no more.
func (l *link) start(c command) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.nextID++
	c.ID = l.nextID
	j := &job{link: l, id: c.ID, done: make(chan struct{})}
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
	l.push(command{Kind: cmdPing})
}

func (l *link) setLease(v lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ending {
		l.lease = &v
		l.poke()
	}
}

func (l *link) setFarewell(f Farewell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ending {
		l.farewell = &f
		l.poke()
	}
}

// end tells the guard process that its owner stops by itself. What is still queued is not sent.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue, l.lease, l.farewell = nil, nil, nil
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

// write sends commands until the pipe fails or stop is closed. A lease overtakes what is queued: a
// start may rely on it, and a renewal must not wait behind payloads.
func (l *link) write(stop <-chan struct{}) {
	enc := gob.NewEncoder(l.in)
	for {
		l.mu.Lock()
		var c command
		switch {
		case l.lease != nil:
			c = command{Kind: cmdLease, Lease: *l.lease}
			l.lease = nil
		case l.farewell != nil:
			c = command{Kind: cmdFarewell, Farewell: *l.farewell, Owner: os.Getpid()}
			l.farewell = nil
		case len(l.queue) > 0:
			c = l.queue[0]
			l.queue[0] = command{} // lets its payload go
			l.queue = l.queue[1:]
		}
		l.mu.Unlock()
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
		l.locked = e.Locked
		select {
		case l.news <- e:
		default: // no guard says more than these two
		}
	case evPong:
		l.pongs++
	case evStarted:
		if j := l.jobs[e.ID]; j != nil {
			j.pid = e.PID
		}
	case evExited:
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

// started counts the commands that run, and lists their process groups.
func (l *link) started() (groups []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.pid != 0 {
			groups = append(groups, j.pid)
		}
	}
	return groups
}

func (l *link) answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pongs
}

func (l *link) holdsLock() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.locked
}

// fail ends every job that is left: call it when nothing of them is. No cause means that the guard
// process ended as it was told to; then a job that has not started never will.
func (l *link) fail(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for id, j := range l.jobs {
		delete(l.jobs, id)
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
