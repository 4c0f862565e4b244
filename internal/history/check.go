package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Check judges a history. The events have to be in order: see [Merge].
func Check(events []Event, o Options) Report {
	c := &checker{
		Options: o, events: events, report: newReport(len(events)),
		procs: map[string]*process{}, items: map[string]*item{}, work: map[string]int{},
		keys: map[string]string{}, keysOf: map[string]map[string]int{},
		values: map[string]*ackedKey{}, changedItems: map[string]bool{},
	}
	c.resetConfigs()
	c.resetLeaders(time.Time{})
	for i, e := range events {
		c.apply(i, e)
	}
	c.finish()
	return c.report
}

func newReport(events int) Report {
	return Report{Events: events, Settled: -1, Unjudged: []string{}, Breaches: []Breach{}}
}

// checker goes through a history once and keeps what the rules need. A number named at is the place
// of an event in the history.
type checker struct {
	Options
	events  []Event
	report  Report
	procs   map[string]*process
	items   map[string]*item
	strays  []int // steps outside of any work that was known then
	amnesty time.Time
	losses  []window // each time that Consul lost writes, and the amnesty after it

	keys         map[string]string         // what Consul holds
	keysOf       map[string]map[string]int // item -> member -> at: its keys
	changedItems map[string]bool           // items whose keys the current write has changed
	writeAt      int
	epoch        uint64 // the leader key's ModifyIndex, 0: there is none
	epochAt      int
	leaders      leaders
	values       map[string]*ackedKey
	hasWrite     bool
	configs      configs

	work    map[string]int // items of the workload -> at
	calmAt  int            // at + 1; 0: not yet
	wellAt  time.Time
	well    bool
	judged  bool
	closing bool
}

// process is one run of a member.
type process struct {
	name        string
	first       int
	last        time.Time
	lastAt      int
	ended       bool
	dead        bool      // it was killed; its commands may go on
	died        time.Time // when its death or its end was first told
	frozen      bool
	frozenTimes []window // when it was frozen
	running     map[string]*span
	leadAt      int    // at + 1; 0: it does not lead
	epoch       uint64 // of its leadership; 0: that is from before Consul lost writes
	// since when its lock may be gone while it leads; zero: it has the lock
	lockLostAt   time.Time
	lockLost     bool           // the lock was lost since it last said whether it leads
	newerLeaders map[string]int // who has led meanwhile with a newer epoch -> at
}

// withoutProcess are the verbs that need no process.
var withoutProcess = map[Verb]bool{Set: true, Del: true, Acked: true, Try: true, Restored: true,
	Calm: true, Close: true}

// aboutOthers are the verbs of lines that another process may write about this one.
var aboutOthers = map[Verb]bool{Thaw: true, End: true, Dead: true, Freeze: true,
	Set: true,
	Del: true, Early: true}

// window is when a process stood still.
type window struct {
	from, to time.Time
	killed   bool // at its end
}

// ackedKey is a key with one writer that waits for acknowledgements.
type ackedKey struct {
	tries []string
	acked int // how many of tries were begun up to the last one acknowledged
	at    int
}

// handlers are what each verb says of the process of its line.
var handlers = map[Verb]func(c *checker, i int, e Event, p *process){
	End: (*checker).end, Dead: (*checker).dead, Freeze: (*checker).freeze, Thaw: (*checker).thaw,
	Start: (*checker).start, Stop: (*checker).stop, Ran: (*checker).ran,
	Step: (*checker).step,
	Lead: (*checker).lead, Unlead: (*checker).unlead, Early: (*checker).early,
	Set: (*checker).write, Del: (*checker).write, Try: (*checker).try, Acked: (*checker).ack,
	Ask: (*checker).ask, Told: (*checker).told, Logged: (*checker).logged,
	Refused: (*checker).refused, Saw: (*checker).saw,
	Restored: (*checker).restored, Calm: (*checker).calm, Close: (*checker).close,
}

func (c *checker) apply(i int, e Event) {
	c.judgeSettled(e.At)
	if w := c.events[c.writeAt]; e.Verb != Set && e.Verb != Del || e.Index != w.Index ||
		e.Proc != w.Proc {
		c.checkOneKeyPerItem()
	}
	p := c.procs[e.Proc]
	if p == nil {
		p = &process{name: e.Proc, first: i, running: map[string]*span{}}
		c.procs[e.Proc] = p
	}
	if !aboutOthers[e.Verb] {
		p.last, p.lastAt = e.At, i
	}
	if handle := handlers[e.Verb]; handle != nil {
		handle(c, i, e, p)
	}
	c.trackSettled(e)
}

func (c *checker) end(i int, e Event, p *process) {
	c.stopAll(i, p)
	c.unlead(i, e, p)
	p.ended = true
	p.setDied(e.At)
}

// freeze ignores what the process says of a freeze that another has told already.
func (c *checker) freeze(_ int, e Event, p *process) {
	if !p.frozen {
		p.frozen = true
		p.frozenTimes = append(p.frozenTimes, window{from: e.At})
	}
}

func (c *checker) thaw(_ int, e Event, p *process) {
	if p.frozen {
		p.frozenTimes[len(p.frozenTimes)-1].to = e.At
	}
	p.frozen = false
}

func (c *checker) early(_ int, e Event, p *process) {
	p.noteLockLost(e.At)
	p.lockLost = true
}

func (c *checker) calm(i int, _ Event, _ *process) {
	c.boundNotReached("another calm line")
	c.calmAt, c.judged, c.well = i+1, false, false
}

func (c *checker) close(_ int, _ Event, _ *process) {
	c.boundNotReached("the close line")
	c.closing = true
}

func (c *checker) try(_ int, e Event, _ *process) {
	v := c.value(e.Key)
	v.tries = append(v.tries, e.Value)
}

func (c *checker) ack(i int, e Event, _ *process) {
	v := c.value(e.Key)
	v.at = i
	if n := slices.Index(v.tries, e.Value); n >= 0 {
		v.acked = n + 1
	}
}

func (c *checker) value(key string) *ackedKey {
	v := c.values[key]
	if v == nil {
		v = &ackedKey{}
		c.values[key] = v
	}
	return v
}

func (c *checker) restored(_ int, e Event, _ *process) {
	c.amnesty = e.At.Add(e.For)
	c.losses = append(c.losses, window{from: e.At, to: c.amnesty})
	for _, w := range c.items {
		clear(w.highest)
	}
	c.resetLeaders(e.At)
	clear(c.keys)
	clear(c.keysOf)
	clear(c.values)
	clear(c.work)
	c.resetConfigs()
	clear(c.changedItems)
	c.epoch = 0
}

// forgiven tells whether Consul had just lost writes when something began.
func (c *checker) forgiven(began time.Time) bool {
	return slices.ContainsFunc(c.losses, func(w window) bool {
		return !began.Before(w.from.Add(-c.Skew)) && began.Before(w.to)
	})
}

// write notes a write that Consul accepted.
func (c *checker) write(i int, e Event, _ *process) {
	c.hasWrite = true
	c.report.Writes++
	if e.Epoch != 0 && e.Epoch != c.epoch && !e.At.Before(c.amnesty) {
		c.breach("I2",
			fmt.Sprintf("Consul accepted a write of epoch %d at index %d, when the leader key "+
				"was at %d: %s was deposed",
				e.Epoch, e.Index, c.epoch, e.Proc), c.epochAt, i)
	}
	if e.Verb == Set {
		c.keys[e.Key] = e.Value
	} else {
		delete(c.keys, e.Key)
	}
	kind, rest, _ := strings.Cut(e.Key, "/")
	switch {
	case e.Key == "leader":
		c.epoch, c.epochAt = 0, i
		if e.Verb == Set {
			c.epoch = e.Index
		}
	case kind == "workload" && rest != "" && !strings.Contains(rest, "/"):
		if e.Verb == Set {
			c.work[rest] = i
			break
		}
		if e.Proc != "" {
			at := i
			if had, ok := c.work[rest]; ok {
				at = had
			}
			c.breach("I4", fmt.Sprintf("%s deletes %s from the workload", e.Proc, rest), at, i)
		}
		delete(c.work, rest)
	case kind == "config_data":
		c.configWritten(i, e)
	case kind == "assignments":
		member, id, _ := strings.Cut(rest, "/")
		if id == "" || strings.Contains(id, "/") {
			break
		}
		c.changedItems[id], c.writeAt = true, i
		if e.Verb == Del {
			delete(c.keysOf[id], member)
			break
		}
		if c.keysOf[id] == nil {
			c.keysOf[id] = map[string]int{}
		}
		c.keysOf[id][member] = i
	}
}

// checkOneKeyPerItem checks between two writes that each item has at most one key.
func (c *checker) checkOneKeyPerItem() {
	for _, id := range slices.Sorted(maps.Keys(c.changedItems)) {
		at := c.events[c.writeAt]
		if holders := c.keysOf[id]; len(holders) > 1 && !at.At.Before(c.amnesty) {
			first := slices.Min(slices.Collect(maps.Values(holders)))
			c.breach("I2", fmt.Sprintf("%s has %d keys at index %d: at %s", id, len(holders),
				at.Index, strings.Join(slices.Sorted(maps.Keys(holders)), " and ")), first,
				c.writeAt)
		}
	}
	clear(c.changedItems)
}
