package store

import (
	"math/rand/v2"
	"time"
)

// patience decides whether a check is *patient*: its TTL is then longer than what a session lives
// without a renewal, so the check ends no session.
//
// An agent takes one registration or report at a time: 1,000 processes that start at once keep it
// busy for 10 s and more. Checks with the TTL that was set would run out meanwhile, their sessions
// would end, and all would register anew. So a check is registered as a patient one at first. If the
// agent is prompt it is made normal at once, else when the agent has been prompt for a while.
type patience struct {
	patient  bool
	normalAt time.Time     // when the check was made normal
	calmAt   time.Time     // when it is to be; zero: the agent was slow
	calmFor  time.Duration // how long the agent has to be prompt for that; 0: it was never slow
	sessions int           // that were opened so far
	ended    time.Time     // when one of them ended last
}

// probes tells whether reports come at the pace of a normal check although the check is patient: so
// it is seen, while nothing depends on it, whether the agent takes so many.
func (p *patience) probes() bool { return p.patient && !p.calmAt.IsZero() && p.calmFor > 0 }

// Bounds of patience.calmFor. It doubles when the agent is slow again meanwhile, or within
// calmHolds.
const (
	leastCalm = 20 * time.Second
	mostCalm  = 30 * time.Minute
	calmHolds = 10 * time.Minute
)

// slow takes in that the agent is slow.
func (p *patience) slow(now time.Time) {
	switch {
	case p.patient && p.calmAt.IsZero(): // still
	case !p.patient && now.Sub(p.normalAt) > calmHolds:
		p.calmFor = 0
	default:
		p.calmFor = min(2*p.calmFor, mostCalm)
	}
	p.patient, p.calmAt, p.calmFor = true, time.Time{}, max(p.calmFor, leastCalm)
}

// prompt takes in that the agent is prompt.
func (p *patience) prompt(now time.Time) {
	if p.patient && p.calmAt.IsZero() {
		p.calmAt = now.Add(p.calmFor)
		if p.calmFor > 0 { // all who were slow together are not to register anew together
			p.calmAt = p.calmAt.Add(rand.N(p.calmFor))
		}
	}
}

// look makes the check normal when that is due.
func (p *patience) look(now time.Time) {
	if p.patient && !p.calmAt.IsZero() && !now.Before(p.calmAt) {
		p.patient, p.normalAt, p.calmAt = false, now, time.Time{}
	}
}

// opened takes in how many sessions were opened. Where two end within a minute, while this process
// lives, the check is too short.
func (p *patience) opened(sessions int, now time.Time) {
	if sessions <= p.sessions {
		return
	}
	if p.sessions > 0 {
		if !p.ended.IsZero() && now.Sub(p.ended) < time.Minute {
			p.slow(now)
		}
		p.ended = now
	}
	p.sessions = sessions
}
