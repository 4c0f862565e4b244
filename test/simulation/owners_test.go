package simulation_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/internal/protocol"
)

// Each item's time without an owner is held to what docs/guarantees.md promises for what happened
// to it, computed from the run's settings: from an addition, from the end of a member, a leader or
// a session. The promise has conditions. While a request has another fate than to be answered,
// while an episode that is not fair goes on, while the brake is on and while a pin names the item
// it says nothing, and for a settling time after that no more than that all is well again by then.

// fair are the episodes that leave the conditions of the promise as they are.
var fair = map[string]bool{
	"kill": true, "takeover": true, "leave": true, "join": true, "destroy": true, "work": true,
	"churn": true, "leaders": true, "receivers": true, "touch": true, "aimed": true,
	"machine": true, "drain": true, "wish": true, "remake": true,
}

// span is a time in which the conditions of the promise do not hold.
type span struct {
	from, to time.Time
	why      string
}

// unfair writes down that the conditions of the promise do not hold from one time to another.
func (w *world) unfair(from, to time.Time, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spans = append(w.spans, span{from, to, why})
}

// mark is what the judge has to know of beside the history.
type mark struct {
	at         time.Time
	what       string // crashed: the work has failed; revived: a copy of a renewal has come late
	proc, item string
}

func (w *world) mark(what, proc, item string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks = append(w.marks, mark{time.Now(), what, proc, item})
}

// promise is what a run's settings promise.
type promise struct {
	ttl    time.Duration // the longest
	plan   time.Duration // from when an item is free to its start: merges, soak, a poll, calls
	member time.Duration // after a member's end that nobody speaks for
	// after the end of one that is started again on another host meanwhile
	elsewhere time.Duration
	leader    time.Duration // after a leader's
	lead      time.Duration // until another host's Lead runs after a leader's
	settle    time.Duration // after the conditions have come back
	kept      time.Duration // beyond member, where it has stopped and its items are kept for it
	noted     time.Duration // for which a successor believes what a leader has noted of its waits
}

func (w *world) promised() promise {
	s := w.plan.settings
	ttl := s.longest()
	c := actors.Config{
		Timing: actors.Timing{TTL: ttl, Merge: s.merge, WorkerSoak: s.workerSoak,
			CheckTTL: actors.NoCheck, Grace: time.Duration(s.grace * float64(ttl)),
			LockDelay: s.lockDelay},
	}
	// Whose sessions have ended twice, or whose agent takes no reports, goes on without a check.
	if s.check && w.plan.profile == "waited" && s.noReports == 0 {
		c.CheckTTL = 0
	}
	b := c.Bounds()
	p := promise{ttl: ttl, plan: b.HandOver.Plus(b.Slack[0]).Total(),
		member: b.TakeOver.Total(), elsewhere: b.TakeOverElsewhere.Total(),
		leader: b.TakeOver.Plus(b.OfLeader...).Total(), lead: b.TakeOverLead.Total(),
		kept:  max(0, s.keep-max(ttl, c.Grace)),
		noted: 6*s.ttl + 2*s.lockDelay}
	// Whoever failed until now asks again within the ladder's longest step; a session that was lost
	// meanwhile is opened anew, and its member's items wait for a lease, after a leader's grace.
	p.settle = 7*time.Second + p.leader + p.ttl + s.workerSoak
	return p
}

// gap is the time of an item without an owner.
type gap struct {
	since, due time.Time
	why        string
}

// owners goes through a run's events and keeps by when each item is to have an owner.
type owners struct {
	promise
	w          *world
	spans      []span // that are still to come
	last       span   // of the others the one that ends last
	work       map[string]bool
	at         map[string]map[string]bool // item -> members that have its key
	records    map[string]bool
	registered map[string]time.Time       // members
	running    map[string]map[string]bool // item -> processes that work on it
	leads      map[string]bool            // processes
	alive      map[string]bool            // processes that take items, or will
	pinned     map[string]bool
	// quarantined items are excused, and no others: nobody is to run them
	quarantined map[string]bool
	made        map[string]uint64 // the indexes at which items of the workload were made
	free        map[string]*gap
	members     map[string]gap // by when a member's items are owned again, whatever becomes of it
	all         gap            // by when all are
	braked      bool
	holder      string                   // the process that has the leader key
	stopped     map[string]gap           // members whose items wait for them
	waits       map[string]time.Duration // how long the items of those wait, from when they stopped
	vacant      time.Time                // since when nobody leads
	noteLost    bool                     // a stranger wrote over what the last leader noted
	told        map[string]bool
	ended       map[string]bool // processes
	duty        dutyBound
}

// judgeOwners holds the run's events against the promise.
func (w *world) judgeOwners(events []history.Event) {
	o := &owners{
		promise: w.promised(), w: w, spans: slices.Clone(w.spans),
		work: map[string]bool{}, records: map[string]bool{}, leads: map[string]bool{},
		alive: map[string]bool{}, pinned: map[string]bool{}, told: map[string]bool{},
		ended: map[string]bool{},
		at:    map[string]map[string]bool{}, running: map[string]map[string]bool{},
		registered: map[string]time.Time{}, stopped: map[string]gap{}, free: map[string]*gap{},
		waits: map[string]time.Duration{}, quarantined: map[string]bool{},
		made: map[string]uint64{}, members: map[string]gap{},
	}
	o.duty = dutyBound{resigned: o.plan, lead: o.lead, at: map[string]bool{}}
	slices.SortFunc(o.spans, func(a, b span) int { return a.from.Compare(b.from) })
	marks := w.marks
	for _, e := range events {
		for ; len(marks) > 0 && !marks[0].at.After(e.At); marks = marks[1:] {
			o.look(marks[0].at)
			o.marked(marks[0])
		}
		o.look(e.At)
		if e.Verb == history.Close {
			return
		}
		o.enter(e)
	}
}

// look finds the items that are without an owner for longer than was promised.
func (o *owners) look(now time.Time) {
	o.lookAtDuty(now)
	if len(o.free) == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(o.free)) {
		g := *o.free[id]
		if now.Before(g.due) || o.told[id] || o.pinned[id] || o.quarantined[id] || o.braked ||
			len(o.alive) == 0 {
			continue
		}
		last := later(g, o.all)
		for m := range o.at[id] {
			last = later(last, o.members[m])
		}
		last = later(last, o.excuse(now))
		if !now.After(last.due) {
			continue
		}
		o.told[id] = true
		o.w.fail("I3: %s has no owner for %v, since %s; by %s it should have had one: %s", id,
			now.Sub(g.since).Round(time.Millisecond), clock(g.since), clock(last.due), last.why)
	}
}

// later is the gap of the two that may last longer.
func later(a, b gap) gap {
	if b.due.After(a.due) {
		return b
	}
	return a
}

func clock(t time.Time) string { return t.Format("04:05.000") }

// excuse is by when all has to be well after the last time before now in which the promise said
// nothing.
func (o *owners) excuse(now time.Time) gap {
	for len(o.spans) > 0 && !o.spans[0].from.After(now) {
		if s := o.spans[0]; s.to.After(o.last.to) {
			o.last = s
		}
		o.spans = o.spans[1:]
	}
	why := "after " + o.last.why + " until " + clock(o.last.to)
	return gap{due: o.last.to.Add(o.settle), why: why}
}

// dues returns what makes gaps that begin at a time and may last so long.
func dues(at time.Time) func(time.Duration, string, ...any) gap {
	return func(d time.Duration, format string, args ...any) gap {
		return gap{at, at.Add(d), fmt.Sprintf(format, args...) + " at " + clock(at)}
	}
}

// restartMost is the longest rest of the supervisor before it starts work again that has failed.
const restartMost = 15 * time.Second

func (o *owners) marked(m mark) {
	due, member := dues(m.at), history.Event{Proc: m.proc}.Member()
	switch m.what {
	case "crashed":
		o.stops(m.item, m.proc, due(restartMost+o.plan, "its work at %s failed", m.proc))
	case "leads":
		o.duty.begins(m.proc)
	case "led":
		o.duty.ends(m.at, m.proc)
	case "revived":
		const why = "a late copy renewed the session of %s"
		took := o.member
		if _, ok := o.stopped[member]; ok { // its items wait for it, from the end of its session
			took += o.kept
		}
		o.members[member] = later(o.members[member], due(took, why, m.proc))
		o.all = later(o.all, due(o.leader, why, m.proc))
		o.duty.until(due(o.lead, why, m.proc))
	}
}

func (o *owners) enter(e history.Event) {
	due := dues(e.At)
	member := e.Member()
	switch e.Verb {
	case history.Boot:
		if len(o.alive) == 0 {
			o.all = later(o.all, due(o.settle, "%s began, when there was nobody", e.Proc))
			o.duty.until(o.all)
		}
		o.alive[e.Proc] = true
	case history.Start:
		add(o.running, e.Item, e.Proc)
		delete(o.free, e.Item)
	case history.Stop:
		o.stops(e.Item, e.Proc, due(o.plan, "its work at %s ended", e.Proc))
	case history.Dead, history.End:
		if o.ended[e.Proc] {
			break
		}
		o.ended[e.Proc] = true
		g := due(o.member, "%s was killed", e.Proc)
		o.duty.ends(e.At, e.Proc)
		if !o.w.wasKilled(e.Proc) {
			wait := o.w.plan.settings.keep
			// Its items wait for it, or for its predecessor's lease.
			if wait > 0 || e.At.Sub(o.registered[member]) < o.ttl+o.plan {
				wait = max(wait, o.ttl)
			}
			g = due(wait+o.plan, "%s stopped", e.Proc)
			o.stopped[member], o.waits[member] = g, g.due.Sub(g.since)
		} else if o.leads[e.Proc] || o.holder == e.Proc { // also while it resigned
			o.all = later(o.all, due(o.leader, "the leader %s was killed", e.Proc))
			o.duty.until(due(o.lead, "the leader %s was killed", e.Proc))
		}
		o.leaves(e)
		delete(o.alive, e.Proc)
		o.members[member] = later(o.members[member], g)
		for _, id := range slices.Sorted(maps.Keys(o.running)) {
			o.stops(id, e.Proc, gap{e.At, e.At.Add(o.plan), g.why})
		}
	case history.Lead:
		o.leads[e.Proc] = true
		o.goesOn(e.At)
	case history.Unlead:
		o.leaves(e)
	case history.Early:
		g := due(o.elsewhere, "%s lost its session or record", e.Proc)
		o.members[member] = later(o.members[member], g)
		if o.leads[e.Proc] {
			o.all = later(o.all, due(o.leader, "the leader %s lost its session or key", e.Proc))
			o.duty.until(due(o.lead, "the leader %s lost its session or key", e.Proc))
		}
	case history.Restored:
		o.all = later(o.all, due(e.For+o.settle, "Consul lost writes"))
		o.duty.until(o.all)
		clear(o.work)
		clear(o.at)
		clear(o.records)
		clear(o.pinned)
		clear(o.quarantined)
		clear(o.free)
		o.braked = false
	case history.Set, history.Del:
		o.write(e, due)
	}
}

// leaves takes in that a process does not lead any more.
func (o *owners) leaves(e history.Event) {
	led := len(o.leads) > 0
	delete(o.leads, e.Proc)
	if led && len(o.leads) == 0 {
		o.vacant = e.At
	}
}

// goesOn takes in that somebody leads again: while nobody did, nobody waited for the members that
// have stopped, and what the last leader waited since its last note is lost. A note that is older
// than it is believed says nothing, nor does one in whose place a stranger has written another
// value: then all of the wait begins anew.
func (o *owners) goesOn(now time.Time) {
	if o.vacant.IsZero() {
		return
	}
	for m, g := range o.stopped {
		from := o.vacant
		if from.Before(g.since) {
			from = g.since
		}
		g.due = g.due.Add(now.Sub(from) + o.ttl/4)
		if o.noteLost || now.Sub(o.vacant)+o.ttl/4 > o.noted {
			g = later(g, gap{due: now.Add(o.waits[m])})
		}
		g.why += ", and nobody led from " + clock(from) + " to " + clock(now)
		o.stopped[m] = g
		o.members[m] = later(o.members[m], g)
	}
	o.vacant = time.Time{}
}

// stops takes in that a process does not work on an item any more.
func (o *owners) stops(item, proc string, g gap) {
	if !o.running[item][proc] {
		return
	}
	delete(o.running[item], proc)
	if len(o.running[item]) == 0 && o.work[item] && o.free[item] == nil {
		o.free[item] = &g
	}
}

// write takes in what Consul accepted.
func (o *owners) write(e history.Event, due func(time.Duration, string, ...any) gap) {
	kind, rest, _ := strings.Cut(e.Key, "/")
	set := e.Verb == history.Set
	switch kind {
	case "workload":
		if protocol.CheckID("item id", rest) != nil {
			return
		}
		if !set {
			delete(o.work, rest)
			delete(o.free, rest)
		} else if !o.work[rest] {
			o.work[rest], o.made[rest] = true, e.Index
			delete(o.quarantined, rest) // that was another item of the name
			if len(o.running[rest]) == 0 {
				g := due(o.plan, "it was added")
				o.free[rest] = &g
			}
		}
	case "assignments":
		m, id, _ := strings.Cut(rest, "/")
		if set {
			if o.quarantined[id] && !o.at[id][m] && e.Proc != "" {
				o.w.fail("Q: %s was given to %s at %s, and is quarantined", id, m, clock(e.At))
			}
			add(o.at, id, m)
		} else {
			delete(o.at[id], m)
			// It was taken over or released: the wait for that member includes the start elsewhere.
			if g := o.free[id]; g != nil {
				*g = later(gap{g.since, o.members[m].due, o.members[m].why}, *g)
			}
		}
	case "members":
		if set && !o.records[rest] {
			o.registered[rest] = e.At
			delete(o.stopped, rest)
			o.members[rest] = later(o.members[rest], due(o.ttl+o.plan, "%s registered", rest))
		}
		o.records[rest] = set
		r, err := protocol.ParseMemberRecord([]byte(e.Value))
		if err == nil && r.Status == protocol.StatusLeaving {
			maps.DeleteFunc(o.alive, func(proc string, _ bool) bool {
				return history.Event{Proc: proc}.Member() == rest
			})
		}
	case "leader":
		if !set {
			o.holder = ""
		} else if e.Proc != "" {
			o.holder = e.Proc
		}
		o.all = later(o.all, due(o.plan, "the leader key changed"))
		if e.Proc == "" {
			o.duty.until(due(o.lead, "the leader key changed"))
		}
	case "term":
		o.duty.strange = e.Proc == ""
	case "quarantine":
		q, err := protocol.ParseQuarantine([]byte(e.Value))
		barred := set && err == nil && q.Since != 0 && (q.Made == 0 || q.Made >= o.made[rest])
		if o.quarantined[rest] && !barred && o.work[rest] && len(o.running[rest]) == 0 {
			g := due(o.plan, "it was taken out of quarantine")
			o.free[rest] = &g
		}
		o.quarantined[rest] = barred
	case "leader_state":
		o.noteLost = e.Proc == ""
		var now protocol.LeaderState
		if set && json.Unmarshal([]byte(e.Value), &now) != nil {
			return
		}
		if o.braked && now.Brake == "" {
			o.all = later(o.all, due(o.plan, "the brake was let go"))
		}
		o.braked = now.Brake != ""
	case "control":
		if id, ok := strings.CutPrefix(rest, "pins/"); ok {
			if g := o.free[id]; g != nil && !set {
				*g = later(*g, due(o.plan, "its pin was taken away"))
			}
			o.pinned[id] = set
		}
	}
}

func add(to map[string]map[string]bool, a, b string) {
	if to[a] == nil {
		to[a] = map[string]bool{}
	}
	to[a][b] = true
}

// wasKilled tells whether a process ended by kill -9.
func (w *world) wasKilled(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.all, func(p *process) bool { return p.name() == name && p.killed })
}
