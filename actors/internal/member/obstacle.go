package member

import (
	"time"

	"github.com/coordd/coordd/internal/protocol"
)

// holder is who is in the way of a registration.
type holder struct {
	session string
	address string
	process protocol.Process
	ttl     time.Duration // of the session
	owner   sessionOwner
	// stopped: it has said that all its work has ended, and has only not ended its session.
	stopped bool
}

// sessionOwner is whose a session is, by its name.
type sessionOwner int

const (
	anybodys sessionOwner = iota // its name is of another form
	thisIDs                      // a member with this id made it
	anothers                     // a member with another id made it
)

// obstacleStep is what a registering member does about who holds its id.
type obstacleStep int

const (
	waitForExpiry obstacleStep = iota // its session expires if it is dead
	waitForLeader                     // the leader deletes the record of another member's session
	endItsSession                     // it is dead
	refuseID                          // it lives
)

// next decides, given this process's instance and what is known of the holder's process. A dead
// process's session is ended at once. A living one keeps the id: this member refuses to start. One
// on another host cannot be asked: its session expires if it is dead; if it does not expire in all
// that time it is not.
//
// A stranger may have locked the record with the session of another member, which is never ended
// here.
func (h holder) next(instance string, liveness protocol.Liveness) obstacleStep {
	// an earlier session of this very process, whose work has ended or is ending
	own := h.process.Instance == instance && instance != ""
	switch dead := own || h.stopped || liveness == protocol.Dead; {
	case h.owner == anothers:
		return waitForLeader
	case dead && h.owner == thisIDs:
		return endItsSession
	case !dead && liveness == protocol.Alive:
		return refuseID
	}
	return waitForExpiry
}

// predecessorWait is what is being waited for, and since when.
type predecessorWait struct {
	session string
	since   time.Time

	probe string    // a session, see next
	ended time.Time // when that was seen to have ended
}

// expirySlack is for what Consul takes to end a session whose time is over.
const expirySlack = 5 * time.Second

// probeStep is what is found out about a session that is waited for.
type probeStep int

const (
	stillExpiring probeStep = iota // nothing: it may expire yet
	makeProbe
	askProbe
	keptAlive // its member renews it
)

// next decides whether the session that is waited for has been renewed during the wait, which is
// not asked before limit. Consul lets a silent one live for twice its TTL, but an election of its
// own starts that time anew, so the wait's length says nothing. A probe does: a session made now,
// whose TTL is as long, and which nobody renews. When it has ended and the other has not, then that
// one was renewed since: elections gave time to both.
func (w predecessorWait) next(now time.Time, limit time.Duration) probeStep {
	switch {
	case now.Sub(w.since) <= limit:
		return stillExpiring
	case w.probe == "":
		return makeProbe
	case w.ended.IsZero():
		return askProbe
	case now.Sub(w.ended) > expirySlack:
		return keptAlive
	}
	return stillExpiring
}
