package member

import (
	"time"

	"github.com/coordd/coordd/messages"
)

// leaderStep is what the leader-tracker does next.
type leaderStep int

const (
	stepWait      leaderStep = iota // for the watch, or for the lease's end
	stepUncertain                   // without a lease it is not known who leads
	stepBehind                      // the view is older than the epoch: a lagging server, mostly
	stepForgotten                   // it stays older: if Consul was restored a new epoch is needed
	stepTouched                     // a stranger has written the leader key: a new epoch is needed
	stepLead                        // all is as it was
	stepFollow                      // another member leads
	stepVacant                      // nobody leads, and this member may not campaign
	stepCampaign                    // nobody leads
)

// leaderFacts is the input of the decision: what the leader-tracker knows at one moment.
type leaderFacts struct {
	now     time.Time
	session string
	lease   bool // it holds, with the margin that stopping takes
	member  bool // the member is registered under the session
	leaving bool // it is on its way out
	key     LeaderKey
	was     messages.Leadership
	sent    uint64 // the view of the key when the last lock was sent
	// behind is the view that is older than the epoch, and since when.
	behind   uint64
	behindAt time.Time
}

// next decides. If lost, the leadership of before is over.
func (f leaderFacts) next() (do leaderStep, lost bool) {
	leads, k := f.was.Role == messages.Leading, f.key
	if !f.lease || leads && f.was.Session != f.session {
		return stepUncertain, false
	}
	if leads {
		mine := k.Found && k.Entry.Session == f.session
		switch {
		case !k.Known || k.View <= f.sent:
			return stepWait, false // the watch has not caught up with the lock
		case k.Index < f.was.Epoch && (f.behind != k.View || f.now.Sub(f.behindAt) < behindLimit):
			return stepBehind, false
		case k.Index < f.was.Epoch:
			return stepForgotten, false
		case mine && k.Entry.ModifyIndex == f.was.Epoch:
			return stepLead, false
		case mine:
			return stepTouched, false
		}
	}
	switch {
	case !k.Known:
		return stepWait, leads
	case k.Found && k.Entry.Session != "" && k.Entry.Session != f.session:
		return stepFollow, leads
	case !f.member, f.leaving && k.Entry.Session != f.session:
		// A member whose id may be another's does not campaign, nor one that is about to resign:
		// others do that stay, or there is none. They cannot while this session has the key.
		return stepVacant, leads
	}
	return stepCampaign, leads
}
