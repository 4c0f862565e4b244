//go:build unix

package guard

import (
	"time"

	"github.com/coordd/coordd/internal/output"
)

// The owner and its guard process run the same binary and speak gob. Leases and stops have a pipe of
// their own, the control pipe, so that no start and no payload delays them. Starts go through a
// socket, and events come back through it.
//
// Not JSON: an environment may hold any bytes, and JSON would silently replace those that are not
// UTF-8.

// The guard process's file descriptors. Standard input is the control pipe. Standard output and
// error are for the commands.
const (
	socketFD = 3
	lockFD   = 4 // the lock file, open, if there is one
)

// settings are the first message through the socket.
type settings struct {
	HideEnv   []string
	Starts    int
	Output    output.Config
	NoCgroups bool
	LockFile  string // its path, for the presence file; empty: no lock
}

type controlKind uint8

const (
	ctlLease controlKind = iota + 1
	ctlStop
	ctlSignal
	ctlGoodbye
	ctlKill // all commands, at once, and start nothing more
	ctlEnd  // the owner ends by itself; a pipe that closes without it means that the owner died
)

// control goes through the control pipe.
type control struct {
	Kind    controlKind
	ID      uint64 // ctlStop, ctlSignal
	Signal  int
	Lease   lease
	Goodbye Goodbye
	Owner   int // ctlGoodbye: process id of the owner
}

// start goes through the socket.
type start struct {
	ID          uint64
	Name        string // of the item, for its output
	Argv        []string
	Env         []string // of the command alone
	Stdin       []byte
	StopTimeout time.Duration
	Lease       lease // that it relies on: the two pipes have no order between them
}

type eventKind uint8

const (
	evHello eventKind = iota + 1
	evLocked
	evStarted
	evExited
	evLease // ID is the number of a lease that was taken in
	evOutputLost
)

// event goes from the guard process to the owner.
type event struct {
	Kind     eventKind
	ID       uint64
	PID      int    // evHello, evStarted
	Cgroup   string // evHello: directory of the commands' cgroups; empty: none
	NoCgroup string // evHello: why there is none
	Starts   int    // evHello: how many commands it starts at a time
	Locked   bool   // evHello, evLocked: the guard process holds the lock
	Code     int    // evExited, as the following
	Signal   int
	Reason   Reason
	NoLease  bool
	// when the end was seen, and before that: when it was killed, or last seen to run, in nanoseconds
	// of the wall clock
	Ended, Ran int64
	// the last time that the guard process stood still while the command ran, in nanoseconds of
	// the wall clock; 0: it did not
	StoodFrom, StoodTo int64
	// evExited: why it did not start; evHello: why it does not hold the lock; evOutputLost: why
	Err   string
	Lines int    // evOutputLost: how many
	Item  string // evOutputLost: whose the last one was
}

// tellStand has the event say that a process stood still, if that was after the command began.
func (e *event) tellStand(s stand, began time.Time) {
	if s.to.After(began) {
		e.StoodFrom, e.StoodTo = max(s.from.UnixNano(), began.UnixNano()), s.to.UnixNano()
	}
}

// standLimit is how much later than it meant to a process wakes up when it stood still.
const standLimit = time.Second

// stand is the last time for which a process stood still: it was frozen, or its host suspended.
type stand struct{ from, to time.Time }

// note notes that this process stood still, if it went to sleep for next and woke up much later, by
// the clock by which more time has passed: the monotonic one stands still while the host is
// suspended.
func (s *stand) note(asleep time.Time, next time.Duration, woke time.Time) {
	slept := max(woke.Sub(asleep), woke.Round(0).Sub(asleep.Round(0)))
	if slept > next+standLimit {
		*s = stand{asleep, woke}
	}
}
