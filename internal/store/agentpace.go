package store

import (
	"math/rand/v2"
	"time"
)

// agentPace decides how often an agent is asked, and how long the check lasts without a report.
//
// An agent takes one registration or report at a time: 1,000 processes that start at once keep it
// busy for 10 s and more. Checks with the TTL that was set would run out meanwhile, their sessions
// would end, and all would register anew. So a check lasts long at first, and again when an answer
// was late. An agent that answers at once gets the normal one at once, another when it has been
// prompt for a while.
type agentPace struct {
	normal, long time.Duration // TTLs of the check
	has          time.Duration // the TTL that the agent has; 0: it has no check
	took         time.Duration // the last answer
	good         time.Time     // when the last request was sent that it has taken
	sent         time.Time     // when the last report was sent
	late         bool          // an answer was late since the agent has the check
	prompt       time.Time     // since when the agent has been prompt; zero: it is not
	calm         time.Duration // how long it is to be prompt, for the check to be normal
	since        time.Time     // when the check became normal again
	woke         time.Time     // when this process was seen to go on, after it had not run
}

// Bounds of agentPace.calm: it doubles when the agent is late again within calmHolds.
const (
	leastCalm = 20 * time.Second
	mostCalm  = 10 * time.Minute
	calmHolds = 10 * time.Minute
)

// want is the TTL that the check is to have.
func (p *agentPace) want(now time.Time) time.Duration {
	if p.has == p.normal && !p.late || !p.prompt.IsZero() && now.Sub(p.prompt) >= p.calm {
		return p.normal
	}
	return p.long
}

// next is when the next report is due. It leaves an agent that takes its time the more of it.
func (p *agentPace) next(now time.Time) time.Time {
	every := ReportEvery(p.has)
	switch {
	case !p.sent.After(p.good): // it was answered
		every = max(every, 8*p.took)
	case now.Sub(p.good) < p.has:
		every = max(every/3, 2*p.took)
	}
	return p.sent.Add(min(every, p.has/4))
}

// most is how many reports may be under way: the next one does not wait for them, for a way that
// takes its time delivers them all the same, and one that has lost a packet never will.
func (p *agentPace) most() int {
	if p.late || p.took > ReportEvery(p.has)/3 {
		return 2
	}
	return 7
}

// answered takes in that the agent has taken what was sent then. It tells whether the agent has
// become slow.
func (p *agentPace) answered(sent, now time.Time) (slow bool) {
	if sent.Before(p.good) { // answers may overtake each other
		return false
	}
	p.good, p.took = sent, now.Sub(sent)
	switch {
	case p.took > max(p.normal/8, 250*time.Millisecond) && !sent.Before(p.woke):
		if slow = !p.late; slow && now.Sub(p.since) > calmHolds {
			p.calm = 0
		}
		if slow {
			p.calm = min(2*p.calm, mostCalm) + leastCalm + rand.N(leastCalm)
		}
		p.late, p.prompt = true, time.Time{}
	case p.late && p.took > max(p.normal/16, 125*time.Millisecond):
		p.prompt = time.Time{}
	case p.prompt.IsZero():
		p.prompt = now
	}
	return slow
}

// registered takes in that the agent has the check with that TTL.
func (p *agentPace) registered(ttl time.Duration, now time.Time) {
	if p.has = ttl; ttl == p.normal && p.late {
		p.late, p.since = false, now
	}
}
