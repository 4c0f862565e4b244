package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/contained"
)

const (
	// turnDelay is how long a candidate waits for each one before it in the queue.
	turnDelay = 500 * time.Millisecond
	// No candidate waits for more than maxTurnDelays others. A candidate behind so many reads the
	// queue only after farDelay: by then the next one leads as a rule.
	maxTurnDelays = 8
	farDelay      = turnDelay / 2
	// lookPause is the pause between two looks at the queue of one that holds back, and after a
	// reading that has failed.
	lookPause = time.Second
	// usualLease is what the lease is taken for while there is none.
	usualLease = 10 * time.Second
)

// watcher makes views of readings. It belongs to one goroutine.
type watcher struct {
	*Participant
	publish func(election.View)

	now     Reading // the newest
	read    bool    // there was one
	knows   int     // how many of this participant's operations it takes into account
	first   uint64  // incarnation of the first election seen
	err     error   // of the last reading
	failing time.Time
	lease   time.Duration

	queue   []string  // as it was last read
	place   int       // in the queue; -1: not known
	queueAt time.Time // when it was read
	retry   time.Time // not before then, after a failure

	last      election.View
	published bool
}

type seen struct {
	Reading
	err error
}

// Watch implements election.Backend.
func (p *Participant) Watch(ctx context.Context, publish func(election.View)) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	w := &watcher{Participant: p, publish: publish, place: -1, lease: usualLease}
	readings := make(chan seen)
	group.Go(func() {
		contained.Run(p.Logger, "the watch of election "+p.Name, func() error {
			p.store.Watch(ctx, func(r Reading, err error) {
				select {
				case readings <- seen{r, err}:
				case <-ctx.Done():
				}
			})
			return nil
		}, func(error) { cancel() }) // a watch that sees nothing any more is over
	})
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	again := false // a reading of its own has failed
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			again = !w.look(ctx)
		case s := <-readings:
			if s.err == nil && w.read && s.Index < w.now.Index {
				// It is of before, or of a store that was restored. A new reading tells.
				again = !w.look(ctx)
			} else {
				w.accept(s.Reading, s.err, w.knows)
			}
		case <-timer.C:
			if again {
				again = !w.look(ctx)
			}
		}
		next := w.view(ctx)
		if again {
			next = earlier(next, time.Now().Add(lookPause))
		}
		if next.IsZero() {
			next = time.Now().Add(time.Hour)
		}
		timer.Reset(max(time.Until(next), time.Millisecond))
	}
}

// earlier is the earlier of two times; zero: never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// look reads the election. The reading takes into account all that this participant has done.
func (w *watcher) look(ctx context.Context) bool {
	ops := w.known().ops
	r, err := w.store.Read(ctx, "")
	w.accept(r, err, ops)
	return err == nil
}

func (w *watcher) accept(r Reading, err error, knows int) {
	if w.err = err; err != nil {
		if w.failing.IsZero() {
			w.failing = time.Now()
		}
		return
	}
	w.now, w.read, w.knows, w.failing = r, true, knows, time.Time{}
	if w.first == 0 {
		w.first = r.Incarnation
	}
	w.freeFrom(r)
	if k := w.known(); knows >= k.ops && !k.owns(r) && !k.leaving {
		w.crew.leads(w.Participant, false)
	}
}

// view publishes what is new, and returns when there may be more though nothing changes; zero:
// never.
func (w *watcher) view(ctx context.Context) (next time.Time) {
	if l := w.Contact().Get().Lease; l.TTL > 0 {
		w.lease = l.TTL
	}
	if !w.read {
		if w.err != nil {
			w.tell(election.View{Ops: -1, Err: w.err})
		}
		return time.Time{}
	}
	k, r := w.known(), w.now
	v := election.View{Ops: w.knows, Leader: r.Leader, Token: r.Token, Mine: k.owns(r)}
	if r.State.HandOver != nil && !r.Vacant() {
		v.Yield = r.State.HandOver.To
	}
	if !w.failing.IsZero() {
		if over := w.failing.Add(w.lease); time.Now().Before(over) {
			next = over
		} else {
			v.Err = w.err
		}
	}
	incarnation := w.first
	if k.session != "" {
		incarnation = k.incarnation
	}
	switch over := r.Over(); {
	case errors.Is(over, election.ErrDeleted):
		v.Deleted, v.Why = true, "it is being deleted"
	case over != nil:
		v.Ended = true
		v.Why = "it was ended for everyone at " + r.State.Ending.At.Format(time.RFC3339)
	case incarnation != 0 && r.Incarnation != incarnation && w.knows >= k.ops:
		v.Deleted, v.Why = true, "its records are gone"
	case k.session != "" && !k.leaving && v.Err == nil:
		turn, at, err := w.turn(ctx, k)
		if err != nil {
			at = time.Now().Add(lookPause)
			w.retry = at
		}
		v.Turn, next = turn, earlier(next, at)
	}
	w.tell(v)
	return next
}

func (w *watcher) tell(v election.View) {
	if !w.published || !same(v, w.last) {
		w.publish(v)
		w.published, w.last = true, v
	}
}

// same tells whether two views say the same.
func same(a, b election.View) bool {
	errs := fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
	a.Err, b.Err = nil, nil
	return a == b && errs
}

// turn tells whether this candidate may take the leadership now. If not, it returns when to look
// again; zero: when something changes.
func (w *watcher) turn(ctx context.Context, k known) (bool, time.Time, error) {
	now := time.Now()
	if now.Before(w.retry) {
		return false, w.retry, nil
	}
	if w.place < 0 { // once after joining: a candidate knows then whether it is far back
		if err := w.readQueue(ctx, k); err != nil {
			return false, time.Time{}, err
		}
	}
	if !w.now.Vacant() {
		return false, time.Time{}, nil
	}
	order, free := w.now.State.HandOver, w.freeFrom(w.now)
	if now.Before(free) {
		return false, free, nil
	}
	if order != nil && order.To == k.self.ID {
		return true, time.Time{}, nil
	}
	if w.queueAt.Before(free) {
		if at := free.Add(farDelay); w.place >= maxTurnDelays && now.Before(at) {
			return false, at, nil
		}
		if err := w.readQueue(ctx, k); err != nil {
			return false, time.Time{}, err
		}
		now = time.Now()
	}
	at := free
	if order != nil && slices.Contains(w.queue, order.To) {
		at = at.Add(min(max(order.HoldBack, 0), election.MaxHoldBack))
		if again := w.queueAt.Add(lookPause); again.Before(at) {
			if now.Before(again) {
				return false, again, nil
			}
			w.queueAt = time.Time{} // that candidate may have left
			return false, now, nil
		}
	}
	at = at.Add(time.Duration(min(w.place, maxTurnDelays)) * turnDelay)
	return !now.Before(at), at, nil
}

// readQueue finds this candidate's place. One that has no record any more is behind all others.
func (w *watcher) readQueue(ctx context.Context, k known) error {
	at := time.Now()
	queue, err := w.store.Queue(ctx)
	if err != nil {
		return err
	}
	w.queue, w.queueAt = queue, at
	if w.place = slices.Index(queue, k.self.ID); w.place < 0 {
		w.place = len(queue)
	}
	return nil
}
