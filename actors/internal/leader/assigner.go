package leader

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// Assigner shares the workload out for one term: it reads the assignments once,
// drafts what is to be done from the watchers' states, writes it behind the
// guard, takes the outcome into its cache and waits for the next change.
//
// It writes one draft at a time and knows each outcome before the next. Where it
// does not, it takes a new epoch and reads everything anew: the write may still
// arrive, and only the new epoch makes Consul refuse it.
type Assigner struct {
	*actor.Base
	term       uint64
	leadership messages.Reader[messages.Leadership]
	members    messages.Reader[messages.Members]
	acks       messages.Reader[messages.Acks]
	workload   messages.Reader[messages.Workload]
	control    messages.Reader[messages.Control]
	bump       *messages.Mailbox[messages.Bump, messages.Leadership]
	out        *messages.State[messages.Plan]

	epoch       uint64
	session     string        // that holds the leader key
	writer      *store.Writer // of this epoch
	assigned    *assignmentCache
	readAt      map[string]uint64 // the ack with which a member's keys were read last
	absent      map[string]absence
	apart       map[string]*apart          // orders that were in vain, by their assignment keys
	notes       map[string]note            // of items whose work has failed, by item
	failing     map[string][]report        // what members say of such work, by member
	unread      map[string]*aside          // members whose words are to be read
	unreadNotes aside                      // set while the notes could not be read
	notesFailed int                        // how often in a row
	resets      int                        // of Consul's data, for which absences began anew
	inherited   bool                       // what the last leader has noted was read
	handed      map[string]protocol.Waited // by it
	// noted is the leader state as it was read or written last, and notedIndex its index. They
	// count only while notedKnown is set.
	noted      protocol.LeaderState
	notedIndex uint64
	notedKnown bool
	notedAt    time.Time
	noting     aside // a note that was in vain
	noteFailed int   // how often it could not be read
	index      map[string]int32
	indexOf    uint64 // the workload that index was made of
	build      *unitBuilder
	events     *eventLog
	odd        protocol.StrangeKeys
	ladder     *store.Ladder
	foreign    map[string]*aside // sessions that have locked records of several members
	asideAt    time.Time         // when it was said last that something is left aside
	again      time.Time         // not to be drafted before: something was refused
	quiet      time.Time         // the last change of anything that decides where items go
	heeded     heeded            // the states that were taken in last
	first      time.Time         // the first change that has not been drafted with placing yet
	sentinelAt uint64            // index of the last empty workload that got its sentinel
	brakeText  string
	braked     brakeCause // of the last draft
	brakeAt    time.Time
	overridden overridden
	// when the override was given that the last draft has taken in
	overrideSeen time.Time
	sizes        sizes  // of the workload
	spent        uint64 // the order to release the brake that came before the one that is on
	peak         int    // the largest of them, while the brake is on for what has gone; else 0
	zones        zoneMemory
	placed       map[string]time.Time // when each item was, that may not be moved for balance yet
	moves        map[string]int
	releases     map[string]time.Time // see snapshot
	ledger       movesLedger          // for the observer
	settled      bool
}

// NewAssigner wires the actor for one term.
func NewAssigner(b *actor.Base, term uint64, leadership messages.Reader[messages.Leadership],
	members messages.Reader[messages.Members], acks messages.Reader[messages.Acks],
	workload messages.Reader[messages.Workload], control messages.Reader[messages.Control],
	bump *messages.Mailbox[messages.Bump, messages.Leadership],
	out *messages.State[messages.Plan]) *Assigner {
	return &Assigner{Base: b, term: term, leadership: leadership, members: members, acks: acks,
		workload: workload, control: control, bump: bump, out: out}
}

// errTermOver ends the assigner's loop; its tree stops with the leadership.
var errTermOver = errors.New("the term is over")

// Run is the actor: see [supervisor.Child].
func (a *Assigner) Run(ctx context.Context) error {
	a.assigned, a.build = newAssignmentCache(), newUnitBuilder(a.Keys)
	a.readAt, a.absent, a.moves = map[string]uint64{}, map[string]absence{}, map[string]int{}
	a.apart, a.foreign = map[string]*apart{}, map[string]*aside{}
	a.ledger, a.placed = movesLedger{}, map[string]time.Time{}
	a.notes, a.failing = map[string]note{}, map[string][]report{}
	a.unread, a.unreadNotes, a.notesFailed = map[string]*aside{}, aside{}, 0
	a.events = newEventLog(a.Keys, a.ID)
	a.odd = protocol.StrangeKeys{Log: a.Log}
	a.ladder = store.NewLadder()
	a.inherited, a.notedKnown, a.noteFailed, a.noting = false, false, 0, aside{}
	a.handed = nil
	a.sentinelAt = 0
	l := a.leadership.Get()
	a.epoch, a.session, a.resets = l.Epoch, l.Session, l.Resets
	defer a.handOn(ctx)
	err := a.work(ctx)
	if errors.Is(err, errTermOver) {
		a.Idle(ctx)
		<-ctx.Done()
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *Assigner) work(ctx context.Context) error {
	leadership, members, acks := a.leadership.Subscribe(), a.members.Subscribe(), a.acks.Subscribe()
	workload, control := a.workload.Subscribe(), a.control.Subscribe()
	var timer actor.Timer
	defer timer.Stop()
	fresh := false // the cache is of this epoch
	a.changed()
	// What an earlier incarnation had under way may still arrive.
	if err := a.newEpoch(ctx); err != nil {
		return err
	}
	var next time.Time
	var seen struct {
		members  lastView[messages.Table[messages.Member]]
		workload lastView[messages.Table[messages.WorkItem]]
		control  lastView[messages.Control]
		acks     lastView[messages.Table[messages.Ack]]
	}
	for {
		back := false
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-leadership.Changed():
			if l := leadership.Take(); l.Term != a.term {
				return errTermOver
			} else {
				fresh = fresh && l.Epoch == a.epoch
				a.enterEpoch(l)
			}
		case <-members.Changed():
			if m := members.Take(); m.Term == a.term {
				back = seen.members.wentBack(m.Index, m.Items, messages.Same)
			}
			a.heed()
		case <-workload.Changed():
			if w := workload.Take(); w.Term == a.term {
				back = seen.workload.wentBack(w.Index, w.Items, messages.Same)
			}
			a.heed()
		case <-control.Changed():
			if c := control.Take(); c.Term == a.term {
				back = seen.control.wentBack(c.Index, c, messages.Control.Same)
			}
			a.heed()
		case <-acks.Changed():
			if k := acks.Take(); k.Term == a.term {
				back = seen.acks.wentBack(k.Index, k.Items, messages.Same)
			}
		case <-timer.At(next):
		}
		if err := a.Busy(ctx); err != nil {
			return err
		}
		if back {
			a.Log.Warn("consul-lost-writes", "then",
				"taking a new epoch and reading everything anew")
			fresh = false
			a.forgetAbsences()
			if err := a.newEpoch(ctx); err != nil {
				return err
			}
		}
		if !a.informed() {
			next = time.Time{}
			continue
		}
		if wait := time.Until(a.again); wait > 0 {
			next = a.again
			continue
		}
		var err error
		if !fresh {
			if err = a.open(ctx); err == nil {
				err = a.readAll(ctx)
			}
			if err == nil {
				fresh = true
				supervisor.Ready(ctx)
			}
		}
		if err == nil {
			next, err = a.round(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			a.ladder.Reset()
			a.Store.Succeeded("assignments")
		case errors.Is(err, errStale):
			fresh = false
			if err := a.newEpoch(ctx); err != nil {
				return err
			}
			a.again = time.Now().Add(a.ladder.NextBackOff()) // it may be in doubt again, and again
			next = a.again
		case errors.Is(err, store.ErrRefused):
			a.again = time.Now().Add(a.ladder.NextBackOff())
			next = a.again
		case actor.Transient(err):
			a.again = a.Retry("assignments", err, a.ladder)
			next = a.again
		default:
			return err
		}
	}
}

// errStale: the cache may differ from Consul.
var errStale = errors.New("the outcome of a write is not known")

// informed tells whether every state is of this term: never plan on an incomplete read.
func (a *Assigner) informed() bool {
	return a.members.Get().Term == a.term && a.acks.Get().Term == a.term &&
		a.workload.Get().Term == a.term && a.control.Get().Term == a.term
}
