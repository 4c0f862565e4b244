//go:build unix

package guard

import "time"

// The owner and its guard run the same binary and speak gob over two pipes. Not JSON: an
// environment may hold any bytes, and JSON would silently replace those that are not UTF-8.

// protocol is raised with every change of the messages below; the two sides compare it, because
// Config.Argv may name another build.
const protocol = 1

type commandKind uint8

const (
	cmdStart commandKind = iota + 1
	cmdStop
	cmdLease
	cmdPing
)

// command goes from the owner to the guard.
type command struct {
	Kind        commandKind
	ID          uint64
	Argv        []string
	Env         []string
	Stdin       []byte
	StopTimeout time.Duration
	Lease       lease
}

type eventKind uint8

const (
	evHello eventKind = iota + 1
	evStarted
	evExited
	evPong
)

// event goes from the guard to the owner.
type event struct {
	Kind     eventKind
	ID       uint64
	PID      int
	Code     int
	Signal   int
	Reason   Reason
	Err      string
	NoLease  bool
	Protocol int    // evHello
	Token    string // evHello: value of markerEnv, without the id
	Swept    int    // evHello: leftovers of dead guards that were killed
}

// markerEnv is set for every command, to "<token>/<id>". It is how processes that left their group
// and lost their parent are still known for what they are.
const markerEnv = "COORDD_GUARD"
