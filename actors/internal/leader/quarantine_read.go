package leader

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// What the leader reads about work that fails. Nobody's work waits for it: where it cannot be read
// the leader goes on with what it knows, and tries again.

// notesRead is what came of reading where work has failed.
type notesRead struct {
	began   time.Time
	late    bool // it is not due: what is known already stands
	entries []store.Entry
	err     error
}

// readNotes reads where work has failed, once in each epoch, unless that is put off. It may be
// called beside another read: it changes nothing of the assigner.
func (a *Assigner) readNotes(ctx context.Context) (r notesRead) {
	r.began = time.Now()
	if r.late = r.began.Before(a.unreadNotes.until); !r.late {
		r.entries, _, r.err = a.Store.List(ctx, a.Keys.Quarantines(), store.Consistent)
	}
	return r
}

// takeNotes takes in what was read. Where the read has failed and Consul answers other questions it
// is tried for some seconds, and then again while the leader leads.
func (a *Assigner) takeNotes(ctx context.Context, r notesRead) error {
	began, err := r.began, r.err
	switch {
	case r.late:
		return nil
	case errors.Is(err, store.ErrDenied):
		a.odd.Skip(store.Entry{Key: a.Keys.Quarantines()}, err.Error())
		a.unreadNotes, a.notesFailed = aside{}, 0 // an answer: in the next epoch it is asked again
		return nil
	case err != nil:
		most := mostInherit
		if errors.Is(err, store.ErrNoAnswer) { // it has waited for 30 s
			most = 1
		}
		if a.notesFailed++; !a.ofOneID(ctx)(err) || errors.Is(err, store.ErrUnreachable) &&
			a.notesFailed <= most {
			return err
		}
		a.leaveUnread("where work has failed", err, &a.unreadNotes, began)
		return nil
	}
	a.unreadNotes, a.notesFailed = aside{}, 0
	clear(a.notes)
	for e, q := range protocol.Read(r.entries, a.Keys.ReadQuarantine, a.odd.Skip) {
		a.notes[q.Item] = note{q.Quarantine, e.ModifyIndex}
	}
	return nil
}

// toReadFailing has it read what a member says of work that fails, if its ack says that there is
// such work.
func (a *Assigner) toReadFailing(member string, ack messages.Ack) {
	switch {
	case !ack.Failing:
		delete(a.failing, member)
		delete(a.unread, member)
	case a.unread[member] == nil:
		a.unread[member] = &aside{}
	}
}

// readFailing reads what a member says of work that fails.
func (a *Assigner) readFailing(ctx context.Context, member string, ack messages.Ack) error {
	if !ack.Failing {
		delete(a.failing, member)
		delete(a.unread, member)
		return nil
	}
	began, key := time.Now(), a.Keys.State(member)
	e, _, _, err := a.Store.Get(ctx, key, store.Consistent)
	switch {
	case errors.Is(err, store.ErrDenied):
		a.odd.Skip(store.Entry{Key: key}, err.Error())
	case err != nil && !a.ofOneID(ctx)(err):
		return err
	case err != nil:
		a.leaveUnread("what "+member+" says of its work", err, a.unread[member], began)
		return nil
	}
	delete(a.unread, member)
	w, ok, bad := a.Keys.ReadWorkSummary(e)
	if bad != nil && e.CreateIndex != 0 {
		a.odd.Skip(e, bad.Error())
	}
	var reports []report
	for _, r := range w.Items {
		if ok && r.Over {
			reports = append(reports, report{w.Session, r})
		}
	}
	a.failing[member] = reports
	return nil
}

// leaveUnread puts a read off that was begun at a moment and failed. The leader does nothing else
// while it reads, so a try that takes long is seldom.
func (a *Assigner) leaveUnread(what string, err error, x *aside, began time.Time) {
	now := time.Now()
	x.failed(began, now)
	if late := now.Add(16 * now.Sub(began)); late.After(x.until) {
		x.until = late
	}
	a.leaveAside(what, err, x.until)
}

// readingFor is how long summaries are read before the leader does something else: when the work of
// many members fails, nobody else's waits for that.
const readingFor = 200 * time.Millisecond

// readUnread reads what is to be read and is due; it returns when the next is.
func (a *Assigner) readUnread(ctx context.Context) (next time.Time, err error) {
	began := time.Now()
	if until := a.unreadNotes.until; !until.IsZero() && !began.Before(until) {
		if err := a.takeNotes(ctx, a.readNotes(ctx)); err != nil {
			return time.Time{}, err
		}
	}
	acks := a.acks.Get().Items
	for member, x := range a.unread {
		if began.Before(x.until) {
			continue
		}
		now := time.Now()
		if now.Sub(began) > readingFor {
			return now, nil
		}
		ack, _ := acks.Get(member)
		if err := a.readFailing(ctx, member, ack); err != nil {
			return time.Time{}, err
		}
	}
	for _, x := range a.unread {
		next = actor.Earliest(next, x.until)
	}
	return actor.Earliest(next, a.unreadNotes.until), nil
}
