package election

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/messages"
)

// Connection is a way to the store, brought by the caller and shared by as many elections
// as it likes: one session and one lease for all of them. Packages onconsul and onzk have one each.
// It is safe for concurrent use. Elections do not close it.
type Connection interface {
	// Open returns the way to one election for one candidate, follower or operator. It does not
	// talk to the store. The error says what is wrong with the name.
	Open(election string) (Backend, error)
}

// Backend is one participant's way to one election. It says what it sees and does what it is told;
// who leads when, what is told to whom and when a leader steps down is decided by the core
// (machine.go) and is the same for all of them.
//
// The core runs Watch once, beside everything else, and calls Join, Take, Release and Leave one at
// a time and never two at once. Contact, Candidates, HandOver, End and Delete may be called by
// anybody at any time, also without a Join.
//
// Every call returns soon after its context ends. An error that is none of this package's sentinels
// is passing: the store could not be asked. The core tries again, on a ladder, for as long as it
// takes; it never takes such an error for a loss.
type Backend interface {
	// Contact is the state of the connection: its session and until when that can be counted on.
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
	// says so. It returns the fencing token: larger than that of every earlier leader. When this
	// candidate's session has the leadership already (a reply was lost, the lease had lapsed), it
	// succeeds; the token is then the same or larger. Token 0 and no error: not now (another was
	// quicker, a lock-delay); again after retry, or a second if that is 0, or when there is a new
	// view with its Turn. A Take that arrives late, after Leave, has no effect. ErrSessionLost,
	// ErrEnded, ErrDeleted as in Join.
	Take(ctx context.Context) (token uint64, retry time.Duration, err error)

	// Release gives the leadership up, so that the next one may have it at once; the candidate
	// stays. The core calls it when the leader's duties have really ended. Not to have it is no
	// error.
	Release(ctx context.Context) error

	// Leave ends the candidacy, and the leadership if this candidate has it (its duties have
	// ended). It is called once, last, also after a Join that failed. ErrPending: it could not be
	// done now, but the backend goes on trying by itself for as long as the session lives. The core
	// takes every error for that.
	Leave(ctx context.Context) error

	// Candidates lists who is a candidate, the next leader first as far as the order is known.
	Candidates(ctx context.Context) ([]Candidate, error)

	// HandOver asks the leader of now to make way for the candidate with this ID. All others hold
	// back until that one leads, is no candidate any more, or a bounded time has passed since the
	// leadership became free. ErrNoCandidate, ErrNoLeader.
	HandOver(ctx context.Context, id string) error

	// End ends the election for everyone, now and for all who come later, until it is deleted. It
	// returns when the store has it, not when the leader has stopped. An election that does not
	// exist is created as an ended one.
	End(ctx context.Context) error

	// Delete ends the election, waits until nobody leads or can still think so, and removes all
	// that there is of it. When ctx ends first it stays ended, and another Delete goes on. An
	// election that does not exist is no error.
	Delete(ctx context.Context) error
}

// Contact is what a connection says of itself.
type Contact struct {
	// Session is the session that everything of this connection hangs on; empty: there is none at
	// the moment, because none could be opened yet or the last one was lost. A candidate that
	// joined under another one has lost its own.
	Session string
	// Lease says until when Session can be counted on without asking: its Start is the *sending* of
	// the last request that proved it, its TTL is never more than what the store lets pass before
	// it ends a session. When it has run out the session may live or not, and only the next contact
	// will tell.
	Lease messages.Lease
	// Why says why the session before this one ended; empty when there was none.
	Why string
	// Closed: the caller has closed the connection. It will not come back.
	Closed bool
}

// View is what a backend sees of an election at one moment.
type View struct {
	// Ops counts the calls of Join, Take and Release of this backend that had succeeded (a Take
	// that returned no token did not) and that what is seen here takes into account: from it the
	// core tells a view from before its own Take from one that says that the leadership is lost.
	// Once a call has succeeded, a view with its number has to come, also when nothing else
	// changes.
	Ops int
	// Leader is who leads; without an ID nobody does. Token is that leadership's fencing token, 0
	// when it is not known.
	Leader Candidate
	Token  uint64
	// Mine: it is this very candidate, under the session it joined with.
	Mine bool
	// Turn: nobody leads and it is this candidate's turn, by priority, order of joining and
	// hand-over. Two candidates may each see their turn: Take decides.
	Turn bool
	// Yield is the ID of the candidate that the leader is asked to make way for; empty without such
	// an order.
	Yield string
	// Ended and Deleted: the election was ended, is being deleted, or is gone.
	Ended, Deleted bool
	// Why tells more about what is told here, for people: who ended it, what was found in the way.
	Why string
	// Err is set when nothing could be seen for about the time of a session: what the rest says is
	// old. Candidates have their lease to tell them that; followers have this. One that matches
	// ErrInvalid will not pass: it ends the participation.
	Err error
}

// Candidate is one who would lead.
type Candidate struct {
	// ID tells candidates apart. It is new with each nomination.
	ID string `json:"id"`
	// Name is for people and for hand-over. It need not be unique.
	Name string `json:"name"`
	// Priority: among those who wait, the highest leads next; among equals, whoever came first.
	Priority int `json:"priority,omitempty"`
	// Address is published and not used.
	Address string `json:"address,omitempty"`
}

// The errors of this package. Those of a terminal status match one of the first five.
var (
	// ErrSessionLost is returned when the session of the candidacy has ended: it expired, or an
	// operator ended it. Nominate anew, with a new Election, to go on.
	ErrSessionLost = errors.New("the session is lost")

	// ErrClosed is returned when the caller has closed the connection.
	ErrClosed = errors.New("the connection is closed")

	// ErrEnded is returned by a backend when the election was ended for everyone. It is no failure:
	// the status says Ended.
	ErrEnded = errors.New("the election has ended")

	// ErrDeleted is returned by a backend when the election was deleted, by Delete or by a
	// stranger.
	ErrDeleted = errors.New("the election was deleted")

	// ErrInvalid is returned for settings, names and records that cannot be.
	ErrInvalid = errors.New("invalid")

	// ErrStarted is returned when an Election is used for a second nomination.
	ErrStarted = errors.New("nominated already: make a new Election")

	// ErrNoCandidate is returned when a hand-over names nobody who is a candidate, or several.
	ErrNoCandidate = errors.New("no such candidate")

	// ErrNoLeader is returned by a hand-over when nobody leads.
	ErrNoLeader = errors.New("nobody leads")

	// ErrPending is returned by a backend's Leave that goes on by itself.
	ErrPending = errors.New("not done yet")
)
