package backend

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/messages"
)

// Store is one election in a store, for one participant. Its methods may be called by several
// goroutines at once.
type Store interface {
	// Contact is the state of the connection.
	Contact() messages.Reader[election.Contact]
	// Session returns the connection's session. It waits a moment for one.
	Session(ctx context.Context) (string, error)
	// Lives tells whether the records of a session may still be there.
	Lives(session string) bool
	// Read reads the election; and the record of a candidate, unless id is empty. It knows all
	// that this participant has committed before.
	Read(ctx context.Context, id string) (Reading, error)
	// Watch calls seen with a reading after each change, and with each error. It returns when ctx
	// has ended.
	Watch(ctx context.Context, seen func(Reading, error))
	// Queue returns the ids of the candidates, the next leader first.
	Queue(ctx context.Context) ([]string, error)
	// Candidates returns their records, in the same order.
	Candidates(ctx context.Context) ([]election.Candidate, error)
	// Create makes the election if there is none.
	Create(ctx context.Context) error
	// Fit finds out whether the store lets a candidate do all that it may have to. It changes
	// nothing. The error is election.ErrDenied and names the rule.
	Fit(ctx context.Context, c election.Candidate) error
	// Commit makes a change, or returns [ErrChanged] or [ErrLockDelay] and makes none. After
	// another error it is not known whether the change was or will be made. A change that takes
	// the leadership returns the token.
	Commit(ctx context.Context, c Change) (token uint64, err error)
	// Remove removes the election that was read, which is being deleted and has no leader, with
	// all its records. [ErrChanged]: it is another one by now.
	Remove(ctx context.Context, r Reading) error
	// Passing tells whether the same call may succeed later.
	Passing(err error) bool
}

var (
	// ErrChanged is returned when a change is refused because the election is not as it was read.
	ErrChanged = errors.New("the election has changed meanwhile")

	// ErrLockDelay is returned when the store refuses a change for a time of its own.
	ErrLockDelay = errors.New("refused by a lock-delay")
)

// State is the state of an election, as it is stored.
type State struct {
	ID     string `json:"id"`     // of the election: another one of the same name has another one
	Writes uint64 `json:"writes"` // rises with each change: no two states are alike
	// LockDelay is how long the others wait after the last leader; 0: it gave the leadership up.
	LockDelay time.Duration `json:"lock_delay,omitempty"` // nanoseconds
	Leader    string        `json:"leader,omitempty"`     // the name of the last leader
	HandOver  *HandOver     `json:"hand_over,omitempty"`
	Runs      election.Runs `json:"runs,omitzero"`
	Ending    *Ending       `json:"ending,omitempty"`
}

// HandOver is an order to make way for a candidate.
type HandOver struct {
	To       string        `json:"to"`
	Name     string        `json:"name,omitempty"`
	HoldBack time.Duration `json:"hold_back"` // how long the others wait for it; nanoseconds
}

// Ending says that the election was ended for everyone, or is being deleted.
type Ending struct {
	Deleted bool      `json:"deleted,omitempty"`
	At      time.Time `json:"at"`
}

// Reading is an election at one moment.
type Reading struct {
	Index       uint64 // later readings have larger ones; 0: not known
	Incarnation uint64 // of the election; 0: there is none
	Version     uint64 // of its state
	State       State
	Leader      election.Candidate // as its record says
	Session     string             // that holds the leadership; empty: nobody leads
	Token       uint64             // of that leadership
	Held        uint64             // version of the leader's record, where the store needs it
	Owner       string             // session of the candidate's record; empty: there is none
	Node        string             // name of that record, where the store gives it one
	Marks       uint64             // what the store needs to make a record once
}

// Vacant tells whether nobody leads.
func (r Reading) Vacant() bool { return r.Session == "" }

// Over returns ErrEnded or ErrDeleted if the election has ended, else nil.
func (r Reading) Over() error {
	switch end := r.State.Ending; {
	case end == nil:
		return nil
	case end.Deleted:
		return election.ErrDeleted
	}
	return election.ErrEnded
}

// Verb is what a change does to a record.
type Verb uint8

const (
	// Leave it as it is.
	Leave Verb = iota
	// Make it, where there is none.
	Make
	// Need it to be there: the leader's as it was read, a candidate's of the session.
	Need
	// Drop it: it is as it was read.
	Drop
)

// Change is one transaction. It is refused unless the state is as it was read.
type Change struct {
	From    Reading
	State   *State // to be written; nil: it stays
	Leader  Verb
	Record  Verb // the record of Self
	Self    election.Candidate
	Session string
	To      string // the candidate of a hand-over: its record is to be there, as it was read
	// Seal refuses a request of before that makes the record of Self and has not arrived yet.
	Seal bool
}

// write returns the next state: that of the reading, changed by f.
func (r Reading) write(f func(*State)) *State {
	next := r.State
	next.Writes++
	f(&next)
	return &next
}

// Encode returns a record as it is stored.
func Encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // of structs of strings, numbers and times: only by a bug
	}
	return data
}

// ParseState reads a state. What cannot be read is one that has ended: nobody may lead in it.
func ParseState(data []byte) (s State) {
	if json.Unmarshal(data, &s) != nil {
		return State{Ending: &Ending{}}
	}
	return s
}

// ParseCandidate reads a record. ok is false if it is no candidate's.
func ParseCandidate(data []byte) (c election.Candidate, ok bool) {
	err := json.Unmarshal(data, &c)
	return c, err == nil && c.ID != ""
}
