package election

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// Connection is a connection to the store. The caller opens and closes it. Any number of elections
// share it, with one session and one lease for all of them. Packages onconsul and onzk have one
// each. It is safe for concurrent use.
type Connection interface {
	// Open returns the backend of one election for one participant: candidate, follower or
	// operator. It does not talk to the store. The error says what is wrong with the name.
	Open(election string) (Backend, error)
}

// Backend is one participant's access to one election in the store. It reports what it sees and
// does what it is told. The core (machine.go) decides who leads when, what is reported to whom, and
// when a leader steps down. The core is the same for all backends.
//
// The core runs Watch once, beside everything else, and calls Join, Take, Release and Leave one at
// a time and never two at once. The others may be called by anybody at any time, also without a
// Join.
//
// Every call returns soon after its context ends. An error that matches none of this package's
// sentinels is passing: the store could not be asked. The core tries again with growing pauses for
// as long as it takes. It never takes such an error for a lost leadership.
type Backend interface {
	// Contact is the state of the connection: its session and the session's lease.
	Contact() messages.Reader[Contact]

	// Watch publishes what it sees until ctx ends, and then returns; errors are its own business
	// (see View.Err). Before it has seen the election once it publishes nothing but why it cannot:
	// an Err, with Ops -1. Then it publishes a new view at least whenever one of the fields of View
	// has changed, Ops among them. Publish never blocks, and only the newest view counts. An
	// election that does not exist is one with no leader and no end; it need not be created before
	// Join.
	Watch(ctx context.Context, publish func(View))

	// Join makes c a candidate, under the connection's session of this moment, and returns that
	// session, which Contact has told before. It is called as well while there is none: a
	// connection need not have one before, and a passing error says why there is none. A Join whose
	// reply was lost is found again by the next one with the same c.ID: there is one candidate.
	// ErrEnded and ErrDeleted: the election was ended, or is being deleted. ErrSessionLost: the
	// session went meanwhile (before a Join succeeded the core tries again under the next one).
	Join(ctx context.Context, c Candidate) (session string, err error)

	// Take tries to make this candidate the leader; the core calls it when View.Turn or View.Mine
	// says so, and again after a Take that has won while no view says so yet. It returns the
	// fencing token: larger than that of every earlier leader. When this candidate's session has
	// the leadership already (a reply was lost, the lease had lapsed), it succeeds; the token is
	// then the same or larger. Token 0 and no error: not now (another was quicker, a lock-delay);
	// again after retry, or a second if that is 0, or when there is a new view with its Turn. If a
	// network delivers a request twice, a Take that a lock-delay has refused may win later:
	// View.Mine says so. A Take that arrives late, after Leave, has no effect. ErrNoCandidate: its
	// record is gone; it has to join again. ErrSessionLost, ErrEnded, ErrDeleted as in Join.
	Take(ctx context.Context) (token uint64, retry time.Duration, err error)

	// Release gives the leadership up, so that the next candidate may lead at once. The candidate
	// stays a candidate. The core calls it after the leader's duties have really ended. It is no
	// error if this candidate does not lead.
	Release(ctx context.Context) error

	// Leave ends the candidacy, and the leadership if this candidate has it; its duties have ended.
	// It is called once, as the last call, also after a Join that failed. ErrPending: it could not
	// be done now, and the backend goes on trying by itself for as long as the session lives. The
	// core takes every error for ErrPending.
	Leave(ctx context.Context) error

	// Runs reads what is kept of the runs of a duty with a schedule. It writes what change makes of
	// it, and returns when the store has that. change returns false if nothing is to be written. It
	// may be called more than once, and finds what it has written itself. token is that of this
	// candidate's leadership: ErrNoLeader when that is over. 0: anybody, as an operator.
	Runs(ctx context.Context, token uint64, change func(*Runs) bool) (Runs, error)

	// Candidates returns the candidates, the next leader first as far as the order is known.
	Candidates(ctx context.Context) ([]Candidate, error)

	// HandOver asks the leader to make way for the candidate with this ID. All others hold back
	// until that candidate leads, until it is no candidate any more, or until a time that the order
	// says has passed since the leadership became free. from is the token of the leader that is
	// meant; 0: the leader of now. ErrNoCandidate; ErrNoLeader: nobody leads, or not the one meant.
	HandOver(ctx context.Context, id string, from uint64) error

	// End ends the election for everyone, now and later, until it is deleted. It returns when the
	// store has the order, not when the leader has stopped. An election that does not exist is
	// created as an ended one.
	End(ctx context.Context) error

	// Delete ends the election, waits until nobody leads and no lease of a leader can hold any
	// more, and then removes all its keys. If ctx ends first, the election stays ended, and another
	// Delete goes on. It is no error if the election does not exist.
	Delete(ctx context.Context) error
}

// MaxHoldBack bounds for how long others hold back for the candidate of a hand-over.
const MaxHoldBack = time.Minute

// Lease says until when a session may be counted on: Start and TTL.
type Lease = facts.Lease

// Contact is the state of a connection.
type Contact struct {
	// Session is the session that all candidacies of this connection belong to. It is empty while
	// there is none: none could be opened yet, or the last one was lost. A candidate that joined
	// under another session has lost its own.
	Session string
	// Lease says until when Session can be counted on without asking. Its Start is the *sending* of
	// the last request that proved the session. Its TTL is never longer than the time after which
	// the store ends a silent session. After the end of the lease, only the next contact tells
	// whether the session still lives.
	Lease Lease
	// Why says why the previous session ended, or why the first one was refused; empty: neither.
	Why string
	// Closed: the caller has closed the connection. It will not come back.
	Closed bool
	// Broken is why a connection is closed that the caller has not closed; see ErrBroken.
	Broken error
}

// View is what a backend sees of an election at one moment.
type View struct {
	// Ops counts the calls of Join, Take and Release of this backend that have succeeded and that
	// this view takes into account. A Take that returned no token did not succeed. From Ops the
	// core tells a view older than its own Take from one that says that the leadership is lost.
	// After a call has succeeded, a view with its number must come, also if nothing else changes.
	Ops int
	// Leader is who leads; without an ID nobody leads. Token is the leader's fencing token, 0 if it
	// is not known.
	Leader Candidate
	Token  uint64
	// Mine: the leader is this very candidate, under the session that it joined with.
	Mine bool
	// Turn: nobody leads and it is this candidate's turn, by priority, order of joining and hand-
	// over. Two candidates may see their turn at once: Take decides.
	Turn bool
	// Yield is the ID of the candidate that the leader is asked to make way for; empty: there is no
	// such order.
	Yield string
	// Ended and Deleted: the election was ended, is being deleted, or is gone.
	Ended, Deleted bool
	// Why explains the other fields to people: who ended the election, what was in the way.
	Why string
	// Err is set if nothing could be read for about the time of a session. The other fields are
	// then old. Candidates learn this from their lease too; followers have only Err. An error that
	// matches ErrInvalid will not pass: it ends the participation.
	Err error
}

// Candidate is one candidate of an election.
type Candidate struct {
	// ID tells candidates apart. Each nomination makes a new one.
	ID string `json:"id"`
	// Name is for people and for hand-over. It need not be unique.
	Name string `json:"name"`
	// Priority: among those who wait, the highest leads next; among equals, the one who joined
	// first.
	Priority int `json:"priority,omitempty"`
	// Address is published and not used.
	Address string `json:"address,omitempty"`
}

// The errors of this package. Those of a terminal status match one of the first seven.
var (
	// ErrSessionLost is returned when the session of the candidacy has ended: it expired, or an
	// operator ended it. Nominate anew, with a new Election, to go on.
	ErrSessionLost = errors.New("the session is lost")

	// ErrClosed is returned when the caller has closed the connection.
	ErrClosed = errors.New("the connection is closed")

	// ErrEnded is returned by a backend when the election was ended for everyone. It is no failure:
	// the status says Ended.
	ErrEnded = errors.New("the election has ended")

	// ErrDeleted is returned by a backend when the election was deleted, by Delete or by hand.
	ErrDeleted = errors.New("the election was deleted")

	// ErrInvalid is returned for settings, names and records that cannot be.
	ErrInvalid = errors.New("invalid")

	// ErrDenied is returned when the store's access rules deny what a participant needs. The message
	// names the rule. A candidate that may not join tries for half a minute, then it ends with this
	// error: a new right takes a moment to reach all servers.
	ErrDenied = errors.New("the store's access rules deny it")

	// ErrBroken is returned when code has panicked or ended its goroutine: the backend's, this
	// package's or the Lead function. The log has the stack. A leader's duties are stopped, and its
	// record is given up if the backend still can.
	ErrBroken = contained.ErrBroken

	// ErrStarted is returned when an Election is used for a second nomination.
	ErrStarted = errors.New("nominated already: make a new Election")

	// ErrNoCandidate is returned when a hand-over names nobody who is a candidate, or several.
	ErrNoCandidate = errors.New("no such candidate")

	// ErrNoLeader is returned by a hand-over when nobody leads.
	ErrNoLeader = errors.New("nobody leads")

	// ErrPending is returned by a backend's Leave that goes on by itself.
	ErrPending = errors.New("not done yet")
)
