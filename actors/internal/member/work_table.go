package member

import (
	"maps"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// workTable is what a member knows of the items that it works on. It outlives the actor's
// incarnations, which never overlap: the work goes on while the actor is restarted.
type workTable struct {
	items    map[string]*job
	runs     map[string]*runs // of the items that were started here
	released map[string]release
	seen     map[string]time.Time // since when an item could be started
	// skipped has items of which Consul did not do what was asked, and until when nothing is asked.
	// They keep no others from being started and released.
	skipped map[string]time.Time
	told    uint64 // the newest unreadable key that the leader has been told of
	// a key went that this member had not released, and the leader has not been told
	vanished bool
	record   uint64 // the registration that released counts for
}

func newWorkTable() *workTable {
	return &workTable{items: map[string]*job{}, runs: map[string]*runs{},
		released: map[string]release{}, seen: map[string]time.Time{}, skipped: map[string]time.Time{}}
}

// job is one item that is worked on here.
type job struct {
	phase   facts.WorkPhase
	grant   uint64
	session string    // under whose registration it was started
	restart uint64    // the order to restart it that it was started after
	since   time.Time // its start, and when it was told to stop
	handle  *supervisor.Handle
	changes *itemChanges // nil: it is not told of any
	// final: the work was stopped to be given up. It is released, even when the
	// leader calls it back meanwhile, and never resumed under the same grant.
	final bool
}

// release remembers that an item was given up: under which grant, so that nothing
// at or below it is started again, and which version of the key, so that a view
// that still shows it is not taken for a new order. index 0: the outcome is unknown.
type release struct {
	grant uint64
	index uint64
	// refused with the view of this index: not to be tried again before there is another
	after uint64
	at    time.Time // of the answer
}

// runs numbers the runs of an item's work under one grant, so that the fencing token rises with
// each. The work and the actor use it in turn, never at once.
type runs struct{ grant, last uint64 }

// runsUnder returns the runs of an item under a grant.
func (t *workTable) runsUnder(id string, grant uint64) *runs {
	if r := t.runs[id]; r == nil || r.grant != grant {
		t.runs[id] = &runs{grant: grant}
	}
	return t.runs[id]
}

// next is the fencing token of a run that begins. It is false when the grant has no more tokens:
// the item is released then, and is granted anew.
func (r *runs) next() (token uint64, ok bool) {
	if r.spent(r.grant) {
		return 0, false
	}
	r.last++
	return facts.Token(r.grant, r.last), true
}

func (r *runs) spent(grant uint64) bool {
	return r != nil && r.grant == grant && r.last == facts.Runs-1
}

// releasedFor is for how long a release is remembered whose key is gone. No server is as far
// behind, and items that come and go must not fill the memory.
const releasedFor = 10 * time.Minute

// catchUp is how long a view may show what a release has changed. A view that shows it for longer
// may be of a Consul that was restored from before the release, with the same index as then: the
// item is released again. Where it was only the view that was late, this deletes nothing.
func (r release) catchUp(s snapshot) (until time.Time, late bool) {
	until = r.at.Add(s.late)
	return until, until.After(s.now)
}

// snapshot is the input of decide.
type snapshot struct {
	now     time.Time
	session facts.Session
	member  facts.Membership
	view    facts.Assignments
	lease   bool // the lease holds, with the margin that stopping takes
	stop    bool // this member is going
	keep    bool // and its items wait for it: their work is stopped and they are not released
	idle    bool // it runs nothing
	soak    time.Duration
	late    time.Duration // how long a view may be behind a release
}

// registered: the record is locked by this session.
func (s snapshot) registered() bool { return s.member.In(s.session.ID) }

// current: the view was read under this registration.
func (s snapshot) current() bool {
	return s.registered() && s.view.Index >= s.member.Index
}

// clear: inherited items may be touched.
func (s snapshot) clear() bool {
	return s.member.ClearAt.IsZero() || !s.now.Before(s.member.ClearAt)
}

// grant is the number of an item's grant under this registration.
func (s snapshot) grant(a facts.Assignment) uint64 {
	return max(a.CreateIndex, s.member.Index)
}

func (s snapshot) inherited(a facts.Assignment) bool { return a.CreateIndex < s.member.Index }

// decision is the output of decide, which the actor carries out.
type decision struct {
	stop       []string
	start      []string
	release    []string // in the view, not worked on any more
	changed    []string // running, and changed in the workload since they were read
	unreadable uint64   // the index of an unreadable key that the leader has not been told of
	next       time.Time
}

// givenUp tells whether an item's work is stopped to be released: this member goes, or the leader
// calls the item back.
func (s snapshot) givenUp(a facts.Assignment) bool {
	return s.stop && !s.keep || s.current() && a.Releasing
}

// goesOn tells whether running work may go on. A view from before the registration ends nothing.
func (s snapshot) goesOn(j *job, a facts.Assignment, assigned bool) bool {
	switch {
	case s.stop, !s.lease, !s.registered(), j.session != s.session.ID:
		return false
	case !s.current():
		return true
	}
	// with a later order to restart it is started once more when it has ended
	return assigned && a.CreateIndex <= j.grant && !a.Releasing && a.Restart <= j.restart
}

// stopCause says why running work is stopped.
func (s snapshot) stopCause(j *job, a facts.Assignment, assigned bool) actor.StopCause {
	switch {
	case s.stop:
		return actor.StopShutdown
	case j.session != s.session.ID:
		return actor.StopSessionLost
	case !s.lease:
		return actor.StopLeaseOver
	case !s.registered():
		return actor.StopSessionLost
	case a.Releasing && a.Reason == "drain":
		return actor.StopDrained
	case a.Releasing && a.Reason == "removed":
		return actor.StopRemoved
	case a.Releasing && (a.Reason == "failing" || a.Reason == "quarantined"):
		return actor.StopFailing
	case !assigned, a.Releasing, a.CreateIndex > j.grant:
		return actor.StopMoved
	case a.Restart > j.restart:
		return actor.StopRestarted
	}
	return actor.StopChanged
}

// decide goes through the protocol's rules for a member. It drops jobs that are
// over and marks those to be stopped as final where they are to be given up.
func (t *workTable) decide(s snapshot) decision {
	var d decision
	if s.current() && t.record != s.member.Index {
		// every grant from here on is above those of earlier registrations
		t.record = s.member.Index
		clear(t.released)
		clear(t.runs)
	}
	maps.DeleteFunc(t.skipped, func(_ string, until time.Time) bool { return !until.After(s.now) })
	for id, j := range t.items {
		a, assigned := s.view.Items.Get(id)
		if j.phase == facts.Stopped {
			t.ended(&d, s, id, a, assigned)
			continue
		}
		if j.final = j.final || s.givenUp(a); j.phase == facts.Stopping {
			continue
		}
		if !s.goesOn(j, a, assigned) {
			d.stop = append(d.stop, id)
		} else if s.current() && j.changes.behind(a.Changed) && !t.skips(&d, id) {
			d.changed = append(d.changed, id)
		}
	}
	if s.current() {
		t.forget(s)
		t.open(&d, s)
	}
	return d
}

// ended decides about a job whose work has ended: what stays in the table is released.
func (t *workTable) ended(d *decision, s snapshot, id string, a facts.Assignment,
	assigned bool) {
	j := t.items[id]
	switch {
	case s.registered() && j.session != s.session.ID:
		// it belonged to an earlier registration: what is to be done with it is decided anew
		delete(t.items, id)
	case !s.current():
	case !assigned:
		// Somebody deleted it, or Consul was restored from before it was written: the leader,
		// which does not watch the keys, takes the item for owned.
		t.vanished = true
		delete(t.items, id)
	case a.Releasing || j.final:
		t.giveUp(d, s, id, a)
	default: // stopped because the lease had ended, or to be restarted: it may resume
		delete(t.items, id)
	}
}

// forget drops the releases whose keys have been gone for long.
func (t *workTable) forget(s snapshot) {
	for id, r := range t.released {
		answered := !r.at.IsZero()
		switch {
		case answered && s.now.Sub(r.at) > releasedFor:
			if !s.view.Items.Has(id) {
				delete(t.released, id)
				delete(t.runs, id)
			}
		case r.index == 0 && answered || s.view.Items.Has(id):
		default:
			// Seen to be gone. A key that is there again after that, as it was, is one that a
			// Consul restored from a snapshot brought back: it is released again.
			if r.index = 0; !answered {
				r.at = s.now
			}
			t.released[id] = r
		}
	}
}

// keyStep is what is to be done about a key whose item nobody works on.
type keyStep uint8

const (
	leaveKey   keyStep = iota // nothing, for now
	releaseKey                // the item is given up
	startKey                  // its work is started, after the soak
	reportKey                 // the leader is to look at it
)

// step decides about a key whose item nobody works on. Until is when time alone changes that.
func (t *workTable) step(s snapshot, id string, a facts.Assignment) (do keyStep,
	until time.Time) {
	done := t.released[id]
	if done.index == a.ModifyIndex && done.index != 0 {
		if until, late := done.catchUp(s); late {
			return leaveKey, until
		}
	}
	switch {
	case a.Releasing, s.grant(a) <= done.grant, s.stop && !s.keep,
		t.runs[id].spent(s.grant(a)):
		return releaseKey, time.Time{}
	case s.stop, a.Unreadable, s.idle, !s.lease, s.member.Phase != facts.Registered:
		return leaveKey, time.Time{}
	case s.inherited(a) && !s.clear():
		return leaveKey, s.member.ClearAt
	case !s.inherited(a) && a.Session != s.session.ID:
		return reportKey, time.Time{} // granted to another session of this id, or not by a leader
	}
	return startKey, time.Time{}
}

// open looks at the keys.
func (t *workTable) open(d *decision, s snapshot) {
	waiting := map[string]time.Time{}
	for id, a := range s.view.Items.All() {
		do, until := leaveKey, time.Time{}
		if t.items[id] == nil {
			do, until = t.step(s, id, a)
		}
		d.next = actor.Earliest(d.next, until)
		if (a.Unreadable || do == reportKey) && a.ModifyIndex > t.told {
			d.unreadable = max(d.unreadable, a.ModifyIndex)
		}
		switch do {
		case releaseKey:
			t.giveUp(d, s, id, a)
		case startKey:
			waiting[id] = t.soak(d, s, id, a)
		}
	}
	for id := range t.seen {
		if _, assigned := s.view.Items.Get(id); !assigned && t.items[id] == nil {
			t.vanished = true // before its work had begun
		}
	}
	t.seen = waiting
}

// soak lists an item to be started once it could have been for the whole soak. It returns since
// when it could.
func (t *workTable) soak(d *decision, s snapshot, id string, a facts.Assignment) time.Time {
	since, known := t.seen[id]
	if !known {
		since = s.now
	}
	if due := since.Add(s.soak); due.After(s.now) && !a.AtOnce {
		d.next = actor.Earliest(d.next, due)
	} else if !t.skips(d, id) {
		d.start = append(d.start, id)
	}
	return since
}

// skips tells whether nothing is asked of Consul about an item for now.
func (t *workTable) skips(d *decision, id string) bool {
	until, skipped := t.skipped[id]
	d.next = actor.Earliest(d.next, until)
	return skipped
}

// giveUp lists an item for release, unless a predecessor may still work on it or
// its key has to be seen anew first.
func (t *workTable) giveUp(d *decision, s snapshot, id string, a facts.Assignment) {
	if s.inherited(a) && !s.clear() {
		d.next = actor.Earliest(d.next, s.member.ClearAt)
		return
	}
	if r := t.released[id]; r.after != 0 && s.view.Index == r.after {
		// Not "not above": the index of a Consul that was restored goes on from a lower one.
		if until, late := r.catchUp(s); late {
			d.next = actor.Earliest(d.next, until)
			return
		}
	}
	if !t.skips(d, id) {
		d.release = append(d.release, id)
	}
}

// active counts the jobs whose work has not ended.
func (t *workTable) active() int {
	n := 0
	for _, j := range t.items {
		if j.phase != facts.Stopped {
			n++
		}
	}
	return n
}

// holdings is the part of the table that other actors may see.
func (t *workTable) holdings(session string) facts.Holdings {
	m := make(map[string]facts.Holding, len(t.items))
	for id, j := range t.items {
		m[id] = facts.Holding{Phase: j.phase, Grant: j.grant, Since: j.since}
	}
	return facts.Holdings{Session: session, Items: messages.TableOf(m)}
}
