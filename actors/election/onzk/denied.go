package onzk

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// What ZooKeeper may deny a candidate, because an administrator has taken its rights to the nodes
// of the election away. Each holds the others up: for as long as the candidate's session lives, and
// that is as long as its process.
const (
	toLook  = "look"  // at its place in the queue, and whether somebody leads
	toLead  = "lead"  // though it is its turn
	toLeave = "leave" // or to give the leadership up
)

// mostPause is for how long nothing is asked for between two tries of what is denied: the core
// waits for up to 3 s, which is more than the shortest sessions last.
const mostPause = 4 * time.Second

// denial is that ZooKeeper denies a candidate something, again and again.
type denial struct {
	session     int64 // in which it does
	since, last time.Time
	lasts       bool // it was denied again, a session's timeout later or more
	heeded      bool // the candidate is giving its place up for it
	said        bool // that it may not
}

// denialOf is the key of a denial.
type denialOf struct {
	b    *backend
	what string
}

// denied is told how something has ended that may be denied. Once it was denied for a session's
// timeout, without a success, the candidate makes way. It gives its place up and joins again,
// behind the others. If that is denied too, as it is to one that cannot leave, the session is given
// up.
func (b *backend) denied(what string, err error) {
	if err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return
	}
	me, c := b.candidacy(), b.conn
	of := denialOf{b, what}
	switch {
	case err == nil || me.node == "" || me.session != c.session():
		c.notDenied(of)
	case !c.deniedAgain(of, me.session):
	case what == toLeave:
		b.giveSessionUp()
	default:
		c.spawn("a place that is given up", func() { b.makeWay(of, err) })
	}
}

// deniedAgain records a denial. It tells whether it lasts and something is to be done.
func (c *Conn) deniedAgain(of denialOf, session int64) bool {
	timeout := c.timeout()
	c.mu.Lock()
	defer c.mu.Unlock()
	now, d := time.Now(), c.denials[of]
	switch {
	case d.session != session:
		d = denial{session: session, since: now}
	case now.Sub(d.last) > timeout+mostPause:
		d.since = now // it is not known whether it would have been denied all the time
	}
	d.last, d.lasts = now, now.Sub(d.since) >= timeout
	due := d.lasts && !d.heeded
	d.heeded = d.heeded || due && of.what != toLeave
	c.denials[of] = d
	return due
}

// notDenied records that something is not denied, or no more.
func (c *Conn) notDenied(of denialOf) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.denials, of)
}

// giveSessionUp gives the session up in which a candidate can do nothing, unless it is a caller's
// own, or another leads in it, who would lose the leadership and is not denied to give it up. It
// tells whether it does.
func (b *backend) giveSessionUp() bool {
	c := b.conn
	gives := c.own && !c.ledByOthers()
	if gives {
		c.dialer.giveUp(b.candidacy().session,
			"was given up: ZooKeeper denies what its candidates need")
	}
	return gives
}

// ledByOthers tells whether somebody leads here who is not denied to give the leadership up.
func (c *Conn) ledByOthers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaders := c.leaders.Get()
	for of, d := range c.denials {
		if of.what == toLeave && of.b.leads && d.lasts {
			leaders--
		}
	}
	return leaders > 0
}

// makeWay gives a candidate's place up because of a denial, unless it leads by now. Watch has it
// join again, behind all others whatever its priority: else two that are denied would keep the next
// turn to themselves, each while the other is away. If it cannot, that is tried again when the
// denial has gone on for a session's timeout more: each try has everything read again, which may be
// denied at once.
func (b *backend) makeWay(of denialOf, why error) {
	c := b.conn
	soon, cancel := context.WithTimeout(c.ctx, c.timeout())
	defer cancel()
	err := b.operate(soon, "make way", func() error {
		me := b.candidacy()
		if me.node == "" || me.left || me.session != c.session() || c.leadsNow(b) {
			return nil
		}
		err := b.remove(me, true)
		if err == nil {
			b.update(func(now *candidacy) { now.madeWay = true })
			c.log.Warn("place-given-up", "election", b.name, "err", why)
		}
		return err
	})
	denied, said := errors.Is(err, zk.ErrNoAuth), false
	c.mu.Lock()
	if d, is := c.denials[of]; is && err != nil {
		said = d.said
		d.heeded, d.since, d.said = false, time.Now(), said || denied
		c.denials[of] = d
	} else {
		delete(c.denials, of) // it is another place
	}
	c.mu.Unlock()
	if denied && !b.giveSessionUp() && !said {
		c.log.Warn("place-kept", "election", b.name, "err", why, "then",
			"nobody behind this candidate leads; give it its rights back, or end its process")
	}
}

// leadsNoMore records that a view says so, whose oldest reading has that number, unless the view is
// of before the last operation ended.
func (b *backend) leadsNoMore(read uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.working && read > b.minReading {
		b.conn.setLeading(b, false)
	}
}

func (c *Conn) leadsNow(b *backend) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return b.leads
}
