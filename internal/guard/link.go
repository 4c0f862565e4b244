//go:build unix

package guard

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// link is the owner's end of one guard process. It ends with that process and is never used again.
type link struct {
	in       io.WriteCloser // the control pipe
	both     *os.File       // starts one way, events the other way
	destroy  func()         // kills the guard process
	controls *box[control]
	queue    *box[start]

	mu       sync.Mutex
	jobs     map[uint64]*job
	nextID   uint64
	closed   bool   // takes no more jobs
	asked    uint64 // number of the newest lease
	answered uint64 // the same, of those that the guard process has taken in

	news     chan event    // of the guard process itself
	unlinked chan struct{} // closed when Guard.link no longer names it
}

func newLink(in io.WriteCloser, both *os.File, kill func()) *link {
	return &link{in: in, both: both, destroy: kill,
		controls: newBox[control](), queue: newBox[start](), jobs: map[uint64]*job{},
		news: make(chan event, 8), unlinked: make(chan struct{})}
}

// job is one command as its owner sees it.
type job struct {
	link  *link
	id    uint64
	began time.Time     // when it was handed to the link
	under *lease        // guarded by Guard.mu
	pid   int           // 0 until it has started; guarded by link.mu
	runs  chan struct{} // closed when it has started
	done  chan struct{}
	exit  event // valid when done is closed
	lost  error // the cause, when the guard process died; valid when done is closed
}

// start queues a command that relies on that lease; nil when the link takes no more. Call it with
// Guard.mu held.
func (l *link) start(s Spec, stopTimeout time.Duration, under *lease) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.nextID++
	j := &job{link: l, id: l.nextID, began: time.Now(), under: under,
		runs: make(chan struct{}), done: make(chan struct{})}
	l.jobs[j.id] = j
	l.queue.put(start{ID: j.id, Name: s.Name, Argv: []string{"/bin/sh", "-c", s.Command},
		Env: s.Env, Stdin: s.Stdin, StopTimeout: stopTimeout, Lease: *under})
	return j
}

func (l *link) setLease(v lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = v.Seq
	l.controls.put(control{Kind: ctlLease, Lease: v})
}

func (l *link) setGoodbye(b Goodbye) {
	l.controls.put(control{Kind: ctlGoodbye, Goodbye: b, Owner: os.Getpid()})
}

// close takes no more jobs; those it has go on.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// read takes events until the guard process's end closes.
func (l *link) read() {
	dec := gob.NewDecoder(l.both)
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
	j := l.jobs[e.ID]
	switch e.Kind {
	case evHello, evLocked, evOutputLost:
		select {
		case l.news <- e:
		default: // Run reads them at once; losses come twice a minute
		}
	case evLease:
		l.answered = e.ID
	case evStarted:
		if j != nil {
			j.pid = e.PID
			close(j.runs)
		}
	case evExited:
		if j != nil {
			l.end(j, e)
		}
	}
}

// idle tells whether no command is left within limit.
func (l *link) idle(limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		left := len(l.jobs)
		l.mu.Unlock()
		if left == 0 {
			return true
		}
	}
	return false
}

// end needs l.mu.
func (l *link) end(j *job, exit event) {
	delete(l.jobs, j.id)
	j.exit = exit
	close(j.done)
}

// leases are those of the commands that are left. Call it with Guard.mu held.
func (l *link) leases() map[*lease]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	leases := map[*lease]bool{}
	for _, j := range l.jobs {
		leases[j.under] = true
	}
	return leases
}

// groups lists the process groups of the commands that run.
func (l *link) groups() (pgids []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.pid != 0 {
			pgids = append(pgids, j.pid)
		}
	}
	return pgids
}

// silent tells whether the guard process has not taken the newest lease in yet.
func (l *link) silent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered < l.asked
}

// fail ends every job: call it when nothing of them is left. No cause means that the guard process
// ended as it was told to; then a job that has not started never will. Stood is when this process
// stood still, if the guard process did so as well and cannot say it. Killed is when they were.
func (l *link) fail(cause error, stood stand, killed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		exit := event{Code: -1, Reason: NotStarted, Err: "the guard process was told to end"}
		if cause != nil || j.pid != 0 {
			exit = event{Ran: killed.UnixNano()}
			exit.tellStand(stood, j.began)
			j.lost = ErrLost
			if cause != nil {
				j.lost = fmt.Errorf("%w (%w)", ErrLost, cause)
			}
		}
		l.end(j, exit)
	}
}
