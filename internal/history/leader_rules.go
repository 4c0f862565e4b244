package history

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// leaders is what is known of leaderships.
type leaders struct {
	epochs    map[uint64]int // where each epoch stands last, since Consul last lost writes
	highest   uint64         // the highest epoch outside of an amnesty
	highestAt int
}

// lead checks that epochs rise and that no two processes lead at once. The one with the older epoch
// is excused if it was frozen or its lock was taken away.
func (c *checker) lead(i int, e Event, p *process) {
	if (p.ended || p.dead) && e.At.Sub(p.died) > c.Skew {
		c.breach("I2", fmt.Sprintf("%s leads after its end", e.Proc), p.first, i)
	}
	if old, ok := c.leaders.epochs[e.Epoch]; ok && c.events[old].Proc != e.Proc {
		c.breach("I2", fmt.Sprintf("%s and %s lead with the same epoch %d", c.events[old].Proc,
			e.Proc, e.Epoch), old, i)
	}
	c.leaders.epochs[e.Epoch] = i
	late := c.epochFalls(i, e, p)
	if p.leadAt == 0 {
		c.report.Leaderships++
		p.leadAt, p.lockLostAt, p.newerLeaders = i+1, time.Time{}, map[string]int{}
		if late && p.lockLost {
			p.noteLockLost(e.At)
		}
	} else if e.Epoch == p.epoch {
		return
	}
	p.epoch, p.lockLost = e.Epoch, false
	for _, name := range slices.Sorted(maps.Keys(c.procs)) {
		other := c.procs[name]
		if other == p || other.leadAt == 0 {
			continue
		}
		if other.epoch > p.epoch {
			p.noteNewerLeader(other, i)
		} else {
			other.noteNewerLeader(p, i)
		}
	}
}

// noteNewerLeader notes that a process with a newer epoch leads while p leads.
func (p *process) noteNewerLeader(newer *process, i int) {
	if _, known := p.newerLeaders[newer.name]; !known {
		p.newerLeaders[newer.name] = i
	}
}

// epochFalls checks that an epoch is not lower than an earlier one. It returns true for a lower one
// that is excused: the process was frozen, or lost its lock, before it could say that it leads.
func (c *checker) epochFalls(i int, e Event, p *process) (late bool) {
	if e.At.Before(c.amnesty) {
		return false
	}
	if top := &c.leaders; e.Epoch >= top.highest {
		top.highest, top.highestAt = e.Epoch, i
		return false
	}
	top := c.events[c.leaders.highestAt]
	if top.Proc != e.Proc && (p.frozen || p.lockLost || p.justThawed(e.At, e.At) ||
		e.At.Sub(top.At) <= c.Skew) {
		return true
	}
	c.breach("I2", fmt.Sprintf("%s leads with epoch %d, after %s had led with %d", e.Proc, e.Epoch,
		top.Proc, top.Epoch), c.leaders.highestAt, i)
	return false
}

// unlead notes that a process leads no more.
func (c *checker) unlead(i int, e Event, p *process) {
	c.ledUntil(p, e.At, i, "has not stopped leading until %v later")
	p.leadAt, p.newerLeaders, p.lockLost = 0, nil, false
}

// noteLockLost notes that the lock may have been taken away at that time. The process may not know.
func (p *process) noteLockLost(at time.Time) {
	if p.lockLostAt.IsZero() {
		p.lockLostAt = at
	}
}

// ledUntil checks a process that led until a time. The line at says so.
func (c *checker) ledUntil(p *process, until time.Time, at int, says string) {
	if !p.lockLostAt.IsZero() {
		until = earlier(until, p.lockLostAt)
	}
	for _, name := range slices.Sorted(maps.Keys(p.newerLeaders)) {
		since := p.newerLeaders[name]
		e := c.events[since]
		if p.awakeTime(e.At, until) > c.Skew && !c.forgiven(e.At) {
			c.breach("I2", fmt.Sprintf("%s leads since %s, and %s "+says, name,
				e.At.UTC().Format("15:04:05.000"), p.name, until.Sub(e.At)), p.leadAt-1, at)
		}
	}
}

// awakeTime is how much of the time between from and to the process was not frozen and could have
// looked at the clock.
func (p *process) awakeTime(from, to time.Time) time.Duration {
	d := to.Sub(from)
	for _, w := range p.frozenTimes {
		till := to
		if !w.to.IsZero() {
			till = earlier(to, w.to.Add(Notice))
		}
		if begin := later(from, w.from); till.After(begin) {
			d -= till.Sub(begin)
			from = till
		}
	}
	return d
}

// finishLeaders judges the processes without an "unlead": they led up to their last line.
func (c *checker) finishLeaders() {
	for _, name := range slices.Sorted(maps.Keys(c.procs)) {
		if p := c.procs[name]; p.leadAt != 0 {
			c.ledUntil(p, p.last, p.lastAt, "still leads %v later")
		}
	}
}

// resetLeaders forgets all epochs, because Consul has lost writes and its epochs begin anew.
func (c *checker) resetLeaders(at time.Time) {
	c.leaders = leaders{epochs: map[uint64]int{}}
	for _, p := range c.procs {
		p.noteLockLost(at)
		p.epoch = 0
	}
}
