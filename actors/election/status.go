package election

import (
	"fmt"
	"time"
)

// Role is a participant's part in an election.
type Role uint8

const (
	// Uncertain: it is not known who leads. Either the store has not answered yet, or it has not
	// answered for so long that this participant's lease is over.
	Uncertain Role = iota
	// Following: a candidate that does not lead.
	Following
	// Leading: this candidate leads, until Status.Until at least.
	Leading
	// Draining: this candidate still has the leadership and must stop its duties now. It has
	// resigned, the election was ended, or another candidate is to lead. The leadership is released
	// when the duties have stopped (see Election.Drained).
	Draining
	// Observing: not a candidate.
	Observing
	// Out: over for this participant.
	Out
)

func (r Role) String() string {
	names := [...]string{"uncertain", "following", "leading", "draining", "observing", "out"}
	if int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("role %d", r)
}

// MarshalText writes the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// What says what is new in a Status.
type What uint8

const (
	// Waiting: the store cannot be asked; Reason says why. Before the first role is known, and when
	// it is denied.
	Waiting What = iota
	// Initial: the first role that is known.
	Initial
	// RoleChanged: Role is another than before.
	RoleChanged
	// NewLeader: another candidate leads now.
	NewLeader
	// NoLeader: nobody leads, or it is no longer known who does.
	NoLeader
	// Extended: the leader's lease now runs until Until.
	Extended
	// Over: the last message; Out.
	Over
)

func (w What) String() string {
	names := [...]string{"waiting", "initial", "role-changed", "new-leader", "no-leader",
		"extended", "over"}
	if int(w) < len(names) {
		return names[w]
	}
	return fmt.Sprintf("what %d", w)
}

// MarshalText writes the name.
func (w What) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Status is all that a participant knows of its election at one moment.
type Status struct {
	// What is new since the message before.
	What What
	// Role is this participant's.
	Role Role
	// Self is this participant; its ID is empty for followers.
	Self Candidate
	// Leader is who leads. While Leading or Draining it is this candidate. Without an ID nobody
	// leads, or it is not known who does (Uncertain).
	Leader Candidate
	// Token is the fencing token of the leadership of Leader; 0: there is none, or it is not known.
	Token uint64
	// Session is the session in the store that the leadership belongs to. Set while Leading and
	// Draining.
	Session string
	// Until is when the leader's duties end at the latest, unless the lease is extended before: the
	// end of the lease less the margin. Set while Leading and Draining.
	Until time.Time
	// Period is the beginning of the period that a Lead function with a schedule is called for. Set
	// there only.
	Period time.Time
	// Reason says why, for people. It may be empty.
	Reason string
	// Resigned, Ended and Deleted say how the participation ended, if the role is Out and Err is
	// nil.
	Resigned, Ended, Deleted bool
	// Err is why this participation failed, if the role is Out. It matches ErrSessionLost,
	// ErrClosed, ErrInvalid or ErrBroken, or is the error that the Lead function returned.
	Err error
	// Missed counts the changes of role between the previous message and this one that were dropped
	// because nobody read them.
	Missed int
}

// String returns the status in one line, for logs.
func (s Status) String() string {
	text := fmt.Sprintf("%v: %v", s.What, s.Role)
	switch {
	case s.Role == Leading || s.Role == Draining:
		text += fmt.Sprintf(", token %d", s.Token)
	case s.Leader.ID != "":
		text += fmt.Sprintf(", %s leads with token %d", s.Leader.Name, s.Token)
	}
	switch {
	case s.Err != nil:
		text += ": " + s.Err.Error()
	case s.Reason != "":
		text += ": " + s.Reason
	}
	return text
}
