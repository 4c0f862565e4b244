//go:build unix

package guard

import "time"

// The owner and its guard run the same binary and speak gob over two pipes. Not JSON: an
// environment may hold any bytes, and JSON would silently replace those that are not UTF-8.

// protocol is raised with every change of the messages below; the two sides compare it, because
// Config.Argv may name another build.
const protocol = 14

type commandKind uint8

const (
	cmdStart commandKind = iota + 1
	cmdStop
	cmdSignal
	cmdLease
	cmdPing
	cmdGoodbye
	cmdKill // everything, at once, and start nothing more
	cmdEnd  // the owner ends by itself; a pipe that closes without it means that the owner died
)

// command goes from the owner to the guard.
type command struct {
	Kind        commandKind
	ID          uint64
	Name        string // cmdStart: of the item, for its output
	Argv        []string
	Env         []string // cmdStart: of the command alone
	HideEnv     []string
	Stdin       []byte
	StopTimeout time.Duration
	Signal      int
	Epoch       uint64 // cmdStart: of the lease that it relies on
	Lease       lease
	Goodbye     Goodbye
	Owner       int // process id of the sender of the goodbye
}

type eventKind uint8

const (
	evHello eventKind = iota + 1
	evStarted
	evExited
	evPong
	evLocked
	evOutputLost
	evKilled // SIGKILL was sent to all of a command
)

// event goes from the guard to the owner.
type event struct {
	Kind    eventKind
	ID      uint64
	PID     int
	Code    int
	Signal  int
	Reason  Reason
	NoLease bool
	// evExited: the host had nothing left to start it with
	Exhausted bool
	Protocol  int    // evHello
	Token     string // evHello: value of markerEnv, without the id
	Swept     int    // evHello, evLocked: leftovers of dead guards that were killed
	// evLocked: process id of a frozen guard of a dead owner that was killed for the lock
	Evicted  int
	Locked   bool   // evHello, evLocked: the guard holds its lock file
	Cgroup   string // evHello: directory of the guard's cgroup; empty: none
	NoCgroup string // evHello: why there is none
	LockID   string // evHello, evLocked: which file that is, when Locked
	Ended    int64  // evExited: when that was seen, in nanoseconds of the wall clock
	// evExited: the last time that the guard process stood still while the command ran, in
	// nanoseconds of the wall clock; 0: it did not
	StoodFrom, StoodTo int64
	// evExited: why it did not start; evHello: why it does not hold the lock file; evOutputLost:
	// why it is; empty: above the rate
	Err   string
	Lines int    // evOutputLost: how many
	Item  string // evOutputLost: whose the last one was
}

// tellStand has the event say that the guard process stood still, if that was after the command
// began. A stand is known to begin at the last look before it, and the command may have begun
// since.
func (e *event) tellStand(s stand, began time.Time) {
	if s.to.After(began) {
		e.StoodFrom, e.StoodTo = max(s.from.UnixNano(), began.UnixNano()), s.to.UnixNano()
	}
}

// markerEnv is set for every command, to "<token>/<id>". The guard recognizes by it the processes
// that left their group and lost their parent.
const markerEnv = "COORDD_GUARD"
