package history

import (
	"fmt"
	"time"
)

// item is what is known of the work on one item.
type item struct {
	spans   []*span
	highest map[string]*span // process -> its start with the highest token
}

// span is one start and what followed.
type span struct {
	proc     *process
	token    uint64
	at, stop int // stop: at + 1; 0: none
	from, to time.Time
	sure     time.Time // up to when it is known to have run; zero: to
	steps    []int
}

func (c *checker) item(id string) *item {
	w := c.items[id]
	if w == nil {
		w = &item{highest: map[string]*span{}}
		c.items[id] = w
	}
	return w
}

// start checks that the token rises with each start.
func (c *checker) start(i int, e Event, p *process) {
	c.report.Starts++
	w := c.item(e.Item)
	if p.ended {
		c.breach("I1", fmt.Sprintf("%s starts %s after its end", e.Proc, e.Item), p.first, i)
	}
	if s := p.running[e.Item]; s != nil {
		c.breach("I1", fmt.Sprintf("%s starts %s twice", e.Proc, e.Item), s.at, i)
		s.to, s.stop = e.At, i+1
	}
	s := &span{proc: p, token: e.Token, at: i, from: e.At, to: e.At}
	if e.At.After(c.amnesty) || c.amnesty.IsZero() {
		for name, old := range w.highest {
			if e.Token > old.token ||
				name != e.Proc && e.At.Sub(old.from) <= c.Skew && c.Skew > 0 {
				continue
			}
			c.breach("I2", fmt.Sprintf(
				"%s starts %s with token %d, after %s had started it with %d", e.Proc, e.Item,
				e.Token, name, old.token), old.at, i)
		}
		if old := w.highest[e.Proc]; old == nil || old.token < e.Token {
			w.highest[e.Proc] = s
		}
	}
	w.spans = append(w.spans, s)
	p.running[e.Item] = s
}

// stop ends work that was begun with the same token.
func (c *checker) stop(i int, e Event, p *process) {
	s := p.running[e.Item]
	if s == nil {
		c.breach("I1", fmt.Sprintf("%s stops %s, which it had not started", e.Proc, e.Item), i, i)
		return
	}
	if s.token != e.Token {
		c.breach("I1", fmt.Sprintf("%s stops %s (token %d), which it had started with token %d",
			e.Proc, e.Item, e.Token, s.token), s.at, i)
	}
	s.to, s.stop = e.At, i+1
	delete(p.running, e.Item)
}

// ran notes up to when work is known to have run. From then to its stop nobody knows.
func (c *checker) ran(_ int, e Event, p *process) {
	if s := p.running[e.Item]; s != nil && s.token == e.Token {
		s.sure = later(e.At, s.from)
	}
}

// known is the end of the time for which the work is known to have run.
func (s *span) known() time.Time {
	if s.sure.IsZero() {
		return s.to
	}
	return earlier(s.sure, s.to)
}

// step adds a step to the work with its token. A step outside of all work is judged at the end: by
// the clock of its writer it may be early or late.
func (c *checker) step(i int, e Event, p *process) {
	if s := p.running[e.Item]; s != nil && s.token == e.Token {
		s.steps = append(s.steps, i)
		if !s.sure.IsZero() {
			s.sure = e.At
		}
		if p.dead {
			s.to = e.At
		}
		return
	}
	c.strays = append(c.strays, i)
}

// stopAll ends all work of a process. The work of a dead process ended with its last line.
func (c *checker) stopAll(i int, p *process) {
	for _, s := range p.running {
		if s.stop = i + 1; !p.dead {
			s.to = c.events[i].At
		}
	}
	clear(p.running)
}

// dead notes that a process was killed. It leads no more. From now on a line of one of its commands
// says nothing of the others.
func (c *checker) dead(i int, e Event, p *process) {
	at := e.At
	c.unlead(i, e, p)
	if n := len(p.frozenTimes); p.frozen {
		p.frozenTimes[n-1].to, p.frozenTimes[n-1].killed = at, true
	}
	p.dead, p.frozen = true, false
	p.setDied(at)
	for _, s := range p.running {
		s.to = at
	}
}

func (p *process) setDied(at time.Time) {
	if p.died.IsZero() {
		p.died = at
	}
}

// finishWork ends work without a "stop" at the last line of its process, and judges the steps
// outside of all work.
func (c *checker) finishWork() {
	for _, p := range c.procs {
		for _, s := range p.running {
			if !p.dead {
				s.to = p.last
			}
		}
	}
	for _, i := range c.strays {
		c.judgeStray(i)
	}
}

func (c *checker) judgeStray(i int) {
	e := c.events[i]
	var before *span
	for _, s := range c.item(e.Item).spans {
		if s.proc.name != e.Proc || s.token != e.Token {
			continue
		}
		if s.from.Sub(e.At) <= c.Skew && e.At.Sub(s.to) <= c.Skew {
			return
		}
		if s.at < i {
			before = s
		}
	}
	if before == nil {
		c.breach("I1", fmt.Sprintf("%s works on %s (token %d), which it has not started", e.Proc,
			e.Item, e.Token), i, i)
		return
	}
	c.breach("I1", fmt.Sprintf("%s works on %s (token %d) after it had stopped", e.Proc, e.Item,
		e.Token), before.at, i)
}
