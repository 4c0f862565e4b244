package member

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// TermsRun is what the term-runner says: what runs of a term.
type TermsRun struct {
	Term uint64 // of the leadership that it acts on; 0: this member does not lead
	Busy bool   // children of a term run, of this one or of an earlier one
	// DutyOver: the host's duty of the term was to end, and has ended.
	DutyOver bool
}

// A leader that an operator drains hands its leadership over: it ends the host's duty, which may
// take long, and leads on meanwhile; then it stops the term's actors, deletes the leader key, and
// leaves it to others for a while. So does one that is hindered: that has tried in vain for long
// what leading takes, though Consul answers it. Another may be able to.

// handOverRest is how long a member leaves the leadership to others after it has handed it over, if
// none of them takes it. They need a moment: a deleted key has no lock-delay.
const handOverRest = 15 * time.Second

// handOverPause is how soon a member hands its leadership over again. Another may not have been
// able to take it, and a leadership that goes round serves nobody.
const handOverPause = 10 * time.Minute

// toHandOver says why this leader is to make way for another member that may lead in its place; the
// empty string: it is not.
func (a *LeaderTracker) toHandOver(ctx context.Context, l messages.Leadership) (why string) {
	hindered := a.hindered.lasting(ctx, a.Base, l.Term)
	if !a.handedAt.IsZero() && time.Since(a.handedAt) < handOverPause {
		return ""
	}
	// What the term-runner says next is then about the end of this term.
	if a.terms.Get().Term != l.Term {
		return ""
	}
	control, members := a.control.Get(), a.members.Get()
	drained := control.Term == l.Term && members.Term == l.Term && control.Drain.Has(a.ID)
	// A leader whose watches have never read knows of nobody else.
	if hindered != "" && (members.Term != l.Term || a.mayLead(members, messages.Control{})) {
		return "in vain for long, though Consul answers: " + hindered
	}
	if drained && !time.Now().Before(a.keepUntil) && a.mayLead(members, control) {
		return "an operator drains this member"
	}
	return ""
}

// mayLead tells whether another member may lead that is not drained.
func (a *LeaderTracker) mayLead(members messages.Members, control messages.Control) bool {
	for id, m := range members.Items.All() {
		if id != a.ID && !m.Leaving && !m.Unreadable && !control.Drain.Has(id) &&
			protocol.CheckMemberID(id) == nil {
			return true
		}
	}
	return false
}

// pastRest is how long a drained member leaves the leadership to others that are not, when its
// leader has given way to one of them. They take it in three answers of Consul as a rule.
const pastRest = 2 * time.Second

// mostPast is the most members that are named in the term.
const mostPast = 100

// past names the drained members, if there is another one that may lead.
func (a *LeaderTracker) past(l messages.Leadership) (ids []string) {
	control, members := a.control.Get(), a.members.Get()
	if control.Term != l.Term || members.Term != l.Term || !a.mayLead(members, control) {
		return nil
	}
	for id := range control.Drain.IDs() {
		if len(ids) < mostPast && members.Items.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// errPast says that this member leaves the leadership to others for now.
var errPast = errors.New("the last leader gave way to members that are not drained")

// isPast tells whether this member is to leave the leadership to others, by the term that was read.
func (a *LeaderTracker) isPast(term store.Entry) bool {
	t, err := protocol.ParseTerm(term.Value)
	if err != nil || !slices.Contains(t.Past, a.ID) {
		return false
	}
	now := time.Now()
	if a.pastTerm != term.ModifyIndex {
		a.pastTerm, a.pastUntil = term.ModifyIndex, now.Add(pastRest)
	}
	if now.Before(a.pastUntil) {
		return true
	}
	a.keepUntil = now.Add(handOverPause) // nobody wants it: to hand it over once more is as vain
	return false
}

// hindrance is what a leader knows of what it tries in vain.
type hindrance struct {
	probed    time.Time
	answering time.Time // since when Consul has answered each probe; zero: it does not
}

// probeEvery is how often a leader that is hindered asks Consul for anything.
const probeEvery = 5 * time.Second

// lasting is what a leader of that term has tried in vain for as long as an actor may hang, while
// Consul answered it; the empty string: nothing.
func (h *hindrance) lasting(ctx context.Context, b *actor.Base, term uint64) (what string) {
	now := time.Now()
	what, since := b.Hindered.Longest(term)
	if what == "" {
		*h = hindrance{}
		return ""
	}
	if now.Sub(h.probed) >= probeEvery {
		_, _, _, err := b.Store.Get(ctx, b.Keys.Leader(), store.Consistent)
		h.probed = time.Now()
		if errors.Is(err, store.ErrUnreachable) {
			h.answering = time.Time{}
		} else if h.answering.IsZero() {
			h.answering = h.probed
		}
	}
	if h.answering.IsZero() || now.Sub(h.answering) < actor.StuckAfter ||
		now.Sub(since) < actor.StuckAfter {
		return ""
	}
	return what
}

// endDuty has the host's duty end, and tells whether it has.
func (a *LeaderTracker) endDuty(l messages.Leadership, why string) bool {
	if a.dutyEnds.Get() != l.Term {
		a.Log.Info("handing-over", "term", l.Term, "why", why)
		a.dutyEnds.Set(l.Term)
		return false
	}
	return a.terms.Get().DutyOver
}

// handOver begins: from here on this member does not lead, but for the key.
func (a *LeaderTracker) handOver(l messages.Leadership) {
	a.handing, a.handingPast, a.handedAt = l, a.past(l), time.Now()
	a.out.Set(messages.Leadership{Role: messages.Vacant})
}

// endHandOver gives the key up once nothing of the term runs; it returns when to look again.
// Without the lease there is nothing to give up.
func (a *LeaderTracker) endHandOver(ctx context.Context, s messages.Session) (time.Time, error) {
	l := a.handing
	if s.ID != l.Session || !a.Holds(s) {
		a.handing = messages.Leadership{}
		return time.Now(), nil
	}
	if t := a.terms.Get(); t.Term == l.Term || t.Busy {
		return time.Now().Add(time.Second), nil // the term-runner tells; the lease may end before
	}
	err := a.Store.Resign(ctx, l.Session, waitLeft(l), a.leads.Load() == 0, a.handingPast...)
	if errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrInvalid) {
		a.Log.Warn("not-resigned", "err", err, "then", "this member leads on")
		a.handing = messages.Leadership{}
		return time.Now(), nil
	}
	if err != nil && !errors.Is(err, store.ErrRefused) {
		return time.Time{}, err
	}
	a.handing, a.restUntil = messages.Leadership{}, time.Now().Add(handOverRest)
	a.Store.Succeeded("leader key")
	if err == nil {
		a.Log.Info("handed-over", "term", l.Term)
	}
	return time.Now(), nil
}

// waitLeft is for how long yet a leader before this one may count on its lease.
func waitLeft(l messages.Leadership) time.Duration {
	if l.ClearAt.IsZero() {
		return 0
	}
	return max(0, time.Until(l.ClearAt))
}
