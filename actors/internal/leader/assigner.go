package leader

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// Assigner shares the workload out for one term: it reads what is assigned once, plans from the
// watchers' states what is to be done, writes it behind the guard, takes in what was applied, and
// waits for the next change.
//
// It writes one plan at a time and knows each outcome before the next. Where it does not, it takes
// a new epoch and reads everything anew: the write may still arrive, and only the new epoch makes
// Consul refuse it.
type Assigner struct {
	*actor.Base
	wires
	memory
}

// wires are what the assigner hears and says.
type wires struct {
	term  uint64
	views views
	bump  *messages.Mailbox[facts.Bump, facts.Leadership]
	out   *messages.State[facts.Distribution]
	unfit *messages.State[facts.Unfit]
}

// views are what the watches of a term show.
type views struct {
	leadership messages.Reader[facts.Leadership]
	members    messages.Reader[facts.Members]
	acks       messages.Reader[facts.Acks]
	workload   messages.Reader[facts.Workload]
	control    messages.Reader[facts.Control]
}

// memory is what the assigner knows beside. It begins anew with each incarnation.
type memory struct {
	epoch     facts.Leadership // with which it writes
	writer    *store.Writer    // of this epoch
	fresh     bool             // what is known is of this epoch
	unsure    bool             // whether the token allows what a leader does
	known     known
	readAt    map[string]uint64 // the ack with which a member's keys were read last
	absences  absences
	failures  failures
	refusals  refusals
	brake     brake
	soak      soak
	zones     zoneMemory
	events    *eventLog
	noted     noted
	onTheMove map[string]time.Time // items, by the last plan, and since when
	settled   bool                 // by the last plan
	planned   *inputs              // of the last plan
	// workloadAt is the index of the workload of that.
	workloadAt uint64
	ladder     *store.Ladder
	again      time.Time // nothing is tried before: something has failed
	unreadable protocol.UnreadableKeys
}

// NewAssigner wires the actor for one term.
func NewAssigner(b *actor.Base, term uint64, leadership messages.Reader[facts.Leadership],
	members messages.Reader[facts.Members], acks messages.Reader[facts.Acks],
	workload messages.Reader[facts.Workload], control messages.Reader[facts.Control],
	bump *messages.Mailbox[facts.Bump, facts.Leadership],
	out *messages.State[facts.Distribution], unfit *messages.State[facts.Unfit]) *Assigner {
	return &Assigner{Base: b, wires: wires{term, views{leadership, members, acks, workload,
		control}, bump, out, unfit}}
}

// errTermOver ends the assigner's loop; its tree stops with the leadership.
var errTermOver = errors.New("the term is over")

// Run is the actor: see [supervisor.Child].
func (a *Assigner) Run(ctx context.Context) error {
	a.memory = memory{epoch: a.views.leadership.Get(), known: known{},
		readAt: map[string]uint64{}, absences: newAbsences(), failures: newFailures(),
		refusals: refusals{}, zones: zoneMemory{}, events: newEventLog(a.Keys, a.ID),
		ladder:     store.NewLadder(),
		unreadable: protocol.UnreadableKeys{Log: a.Log}}
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
	leadership, members := a.views.leadership.Subscribe(), a.views.members.Subscribe()
	acks, workload := a.views.acks.Subscribe(), a.views.workload.Subscribe()
	control := a.views.control.Subscribe()
	var timer actor.Timer
	defer timer.Stop()
	a.soak.begin(time.Now(), a.scene())
	if err := a.begin(ctx); err != nil {
		return err
	}
	var next time.Time
	var seen highest
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
				a.enterEpoch(l)
			}
		case <-members.Changed():
			m := members.Take()
			back = a.wentBack(m.Term, m.Index, &seen.members)
		case <-workload.Changed():
			w := workload.Take()
			back = a.wentBack(w.Term, w.Index, &seen.workload)
		case <-control.Changed():
			c := control.Take()
			back = a.wentBack(c.Term, c.Index, &seen.control)
		case <-acks.Changed():
			k := acks.Take()
			back = a.wentBack(k.Term, k.Index, &seen.acks)
		case <-timer.At(next):
		}
		a.soak.see(time.Now(), a.scene())
		if err := a.Busy(ctx); err != nil {
			return err
		}
		if back {
			a.Log.Info("consul-index-went-back", "then",
				"taking a new epoch and reading everything anew")
			if err := a.newEpoch(ctx); err != nil {
				return err
			}
		}
		var err error
		if next, err = a.step(ctx); err == nil || ctx.Err() != nil {
			continue
		}
		if next, err = a.fail(ctx, err); err != nil {
			return err
		}
	}
}

// step does what is to be done now, unless something has failed a moment ago. It returns when time
// alone calls for the next.
func (a *Assigner) step(ctx context.Context) (next time.Time, err error) {
	if time.Now().Before(a.again) {
		return a.again, nil
	}
	if a.unsure {
		if err := a.checkFitness(ctx); err != nil {
			return time.Time{}, err
		}
	}
	if !a.informed() {
		return time.Time{}, nil
	}
	if !a.fresh {
		if err := a.open(ctx); err != nil {
			return time.Time{}, err
		}
		if err := a.readAll(ctx); err != nil {
			return time.Time{}, err
		}
		a.fresh = true
		supervisor.Ready(ctx)
	}
	if next, err = a.round(ctx); err == nil {
		a.ladder.Reset()
		a.Store.Succeeded("assignments")
	}
	return next, err
}

// fail decides what follows when a step has failed: when to try again, or the end of the actor.
func (a *Assigner) fail(ctx context.Context, err error) (time.Time, error) {
	switch {
	case errors.Is(err, errStale):
		if err := a.newEpoch(ctx); err != nil {
			return time.Time{}, err
		}
		a.again = time.Now().Add(a.ladder.NextBackOff()) // it may be in doubt again, and again
	case errors.Is(err, store.ErrRefused):
		a.again = time.Now().Add(a.ladder.NextBackOff())
	case actor.Transient(err):
		a.unsure = a.unsure || errors.Is(err, store.ErrDenied)
		a.again = a.Retry("assignments", err, a.ladder)
	default:
		return time.Time{}, err
	}
	return a.again, nil
}

// informed tells whether every state is of this term: never plan on an incomplete read.
func (a *Assigner) informed() bool {
	return a.views.members.Get().Term == a.term && a.views.acks.Get().Term == a.term &&
		a.views.workload.Get().Term == a.term && a.views.control.Get().Term == a.term
}

func (a *Assigner) scene() scene {
	return scene{a.views.members.Get(), a.views.workload.Get(), a.views.control.Get()}
}

// begin takes an epoch, for what an earlier incarnation had under way may still arrive, and asks
// meanwhile whether the token allows what a leader does.
func (a *Assigner) begin(ctx context.Context) (err error) {
	unfit := unanswered("asking what the token allows")
	err = unanswered("taking an epoch")
	together(2, func(i int) {
		if i == 0 {
			err = a.newEpoch(ctx)
		} else {
			unfit = a.Store.Fitness(ctx, a.ID)
		}
	})
	a.unsure = unfit != nil
	if errors.Is(err, store.ErrUnreachable) { // the transport ended the goroutine
		err = a.newEpoch(ctx)
	}
	return err
}

// checkFitness asks whether the token allows what a leader does. Where it does not the leader
// tracker resigns: another member may have the rights.
func (a *Assigner) checkFitness(ctx context.Context) error {
	err := a.Store.Fitness(ctx, a.ID)
	if a.unsure = err != nil; store.LacksRights(err) {
		a.unfit.Set(facts.Unfit{Term: a.term, Missing: err.Error()})
	}
	return err
}

// newEpoch makes every earlier write of this leader void.
func (a *Assigner) newEpoch(ctx context.Context) error {
	a.fresh = false
	for {
		l, err := a.bump.Call(ctx, facts.Bump{Epoch: a.epoch.Epoch})
		now := a.views.leadership.Get()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && l.Term == a.term:
			a.enterEpoch(l)
			return nil
		case errors.Is(err, actor.ErrNotLeading) && now.Role == facts.Leading &&
			now.Term == a.term:
			// The lease was over at that moment. The next step of the tracker may find another
			// one, which came meanwhile, and then the term goes on.
			if !store.Pause(ctx, a.ladder.NextBackOff()) {
				return ctx.Err()
			}
		case err == nil, errors.Is(err, actor.ErrNotLeading):
			return errTermOver
		case actor.Transient(err), errors.Is(err, messages.ErrAbandoned):
			if !store.Pause(ctx, time.Until(a.Retry("leader key", err, a.ladder))) {
				return ctx.Err()
			}
		default:
			return err
		}
	}
}

// enterEpoch takes in which epoch there is.
func (a *Assigner) enterEpoch(l facts.Leadership) {
	a.fresh = a.fresh && l.Epoch == a.epoch.Epoch
	a.epoch = l
}

// highest are the highest indexes that the watches have shown in this term.
type highest struct{ members, workload, control, acks uint64 }

// wentBack takes in the index of a view of this term. One below an earlier one may be that of a
// Consul which was restored or came back empty: what is known is of a past that it does not know.
// Or Consul has forgotten a deletion, as it does after a quarter of an hour: then all is read once
// in vain.
func (a *Assigner) wentBack(term, index uint64, highest *uint64) bool {
	if term != a.term {
		return false
	}
	back := index < *highest
	*highest = index
	return back
}
