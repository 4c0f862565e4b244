package election

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
)

// rules is a machine at a time of its own.
type rules struct {
	t   *testing.T
	m   *machine
	now time.Time
}

func newRules(t *testing.T, lead bool) *rules {
	r := &rules{t: t, m: newMachine(Config{}, Candidate{ID: "me", Name: "me"}, false),
		now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.m.lead = lead
	return r
}

func (r *rules) step() effects { return r.m.step(r.now) }

func (r *rules) renewed() {
	r.m.contact = Contact{Session: "s", Lease: facts.Lease{Start: r.now, TTL: 10 * time.Second}}
}

func (r *rules) see(v View) { r.m.view, r.m.views = v, r.m.views+1 }

func (r *rules) want(e effects, what What, role Role) Status {
	r.t.Helper()
	if len(e.messages) != 1 || e.messages[0].What != what || e.messages[0].Role != role {
		r.t.Fatalf("told %v, want one message: %v, %v", e.messages, what, role)
	}
	return e.messages[0]
}

// leads brings it to where it leads with token 7.
func (r *rules) leads() {
	r.t.Helper()
	if e := r.step(); e.start != opJoin {
		r.t.Fatalf("it begins with %v", e.start)
	}
	r.renewed()
	r.m.done(r.now, outcome{op: opJoin, session: "s"})
	r.see(View{Ops: 1, Turn: true})
	if e := r.step(); e.start != opTake || len(e.messages) > 0 {
		r.t.Fatalf("at its turn it does %v and tells %v", e.start, e.messages)
	}
	r.m.done(r.now, outcome{op: opTake, token: 7})
	e := r.step()
	if s := r.want(e, Initial, Leading); !e.startDuty || s.Token != 7 || s.Session != "s" {
		r.t.Fatalf("it leads by %+v, %v", e, s)
	}
}

func TestALeaderStepsDownAMarginBeforeItsLeaseEnds(t *testing.T) {
	r := newRules(t, true)
	r.leads()
	r.now = r.now.Add(9*time.Second - time.Millisecond)
	if e := r.step(); len(e.messages) > 0 || e.stopDuty {
		t.Fatalf("too early: %v", e)
	}
	r.now = r.now.Add(time.Millisecond)
	if e := r.step(); !e.stopDuty {
		t.Error("its duty is not ended")
	} else {
		r.want(e, RoleChanged, Uncertain)
	}
	// Its session still lives: but nothing is taken before the duty has ended.
	r.renewed()
	r.see(View{Ops: 2, Mine: true, Token: 7})
	if e := r.step(); e.start != opNone {
		t.Errorf("it does %v while its duty goes on", e.start)
	}
	r.m.dutyEnded(errToldToStop)
	if e := r.step(); e.start != opTake {
		t.Errorf("it does %v, want to lead again", e.start)
	}
}

// Who was told a role, and cannot tell any more who leads, is told why.
func TestWhyItIsNotKnownAnyMoreWhoLeadsIsTold(t *testing.T) {
	leader := View{Leader: Candidate{ID: "other", Name: "other"}, Token: 3}
	away := View{Err: errors.New("the store is away"), Leader: leader.Leader, Token: 3}
	for name, c := range map[string]struct {
		follower bool
		then     View
		why      string
	}{
		"a follower":               {true, away, "the store is away"},
		"a candidate":              {false, away, "the store is away"},
		"a candidate by its lease": {false, leader, "the lease has run out"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRules(t, true)
			r.m.follower = c.follower
			if !c.follower {
				r.step()
				r.renewed()
				r.m.done(r.now, outcome{op: opJoin, session: "s"})
				leader.Ops, c.then.Ops = 1, 1
			}
			r.see(leader)
			if s := r.step().messages; len(s) != 1 || s[0].What != Initial {
				t.Fatalf("it begins with %v", s)
			}
			r.now = r.now.Add(10 * time.Second)
			r.see(c.then)
			if s := r.want(r.step(), RoleChanged, Uncertain); !strings.Contains(s.Reason, c.why) {
				t.Errorf("it is told %q, want %q", s.Reason, c.why)
			}
			if e := r.step(); len(e.messages) > 0 {
				t.Errorf("it is told more than once: %v", e.messages)
			}
		})
	}
}

func TestAViewFromBeforeItsOwnTakeIsNoLoss(t *testing.T) {
	r := newRules(t, true)
	r.leads()
	r.see(View{Ops: 1, Turn: true})
	if e := r.step(); len(e.messages) > 0 || e.stopDuty {
		t.Errorf("told %v", e.messages)
	}
	r.see(View{Ops: 2})
	if e := r.step(); !e.stopDuty {
		t.Errorf("a view that knows of it and shows no leader is a loss: %v", e)
	}
}

func TestNothingIsGivenUpBeforeTheDutyHasEnded(t *testing.T) {
	r := newRules(t, true)
	r.leads()
	r.see(View{Ops: 2, Mine: true, Token: 7, Yield: "other"})
	e := r.step()
	r.want(e, RoleChanged, Draining)
	if !e.stopDuty || e.start != opNone {
		t.Fatalf("asked to make way it does %+v", e)
	}
	r.m.dutyEnded(errToldToStop)
	if e := r.step(); e.start != opRelease {
		t.Fatalf("with its duty ended it does %v", e.start)
	}
	r.m.resign(false)
	if e := r.step(); e.start != opNone {
		t.Errorf("two things at once: %v", e.start)
	}
	r.m.done(r.now, outcome{op: opRelease})
	if e := r.step(); e.start != opLeave {
		t.Errorf("it does %v, want to leave", e.start)
	}
	r.m.done(r.now, outcome{op: opLeave})
	if e := r.step(); !e.finished || !r.want(e, Over, Out).Resigned {
		t.Errorf("it ends with %+v", e)
	}
}

func TestOfWhatEndsACandidacyOneIsToldOnce(t *testing.T) {
	r := newRules(t, true)
	r.leads()
	r.m.contact = Contact{Why: "expired"}
	r.see(View{Ops: 2, Deleted: true})
	r.m.resign(true)
	e := r.step()
	if s := r.want(e, Over, Out); !errors.Is(s.Err, ErrSessionLost) || !e.stopDuty || e.finished {
		t.Fatalf("told %v, %+v", s, e)
	}
	r.m.contact = Contact{Closed: true}
	if e := r.step(); len(e.messages) > 0 {
		t.Errorf("told more: %v", e.messages)
	}
	r.m.dutyEnded(errToldToStop)
	if e := r.step(); e.start != opLeave {
		t.Errorf("it does %v, want to leave", e.start)
	}
	r.m.done(r.now, outcome{op: opLeave, err: ErrPending})
	if e := r.step(); !e.finished || len(e.messages) > 0 {
		t.Errorf("it ends with %+v", e)
	}
}

func TestATokenThatCameTooLateIsNotLedBy(t *testing.T) {
	r := newRules(t, true)
	r.step()
	r.renewed()
	r.m.done(r.now, outcome{op: opJoin, session: "s"})
	r.see(View{Ops: 1, Turn: true})
	r.step()
	r.now = r.now.Add(9 * time.Second)
	r.m.done(r.now, outcome{op: opTake, token: 7})
	if e := r.step(); e.startDuty {
		t.Error("it leads with a lease that is over")
	}
}

func TestUnreadMessagesAreBoundedAndCounted(t *testing.T) {
	o := newOutbox()
	const changes = 500
	for i := range changes {
		o.put(Status{What: RoleChanged, Token: uint64(i)})
		o.put(Status{What: Extended, Token: uint64(i)})
		o.put(Status{What: Extended, Token: uint64(i), Reason: "newer"})
	}
	o.put(Status{What: Over, Role: Out})
	o.close()
	told, last := 0, Status{}
	for s := range o.out {
		if s.Token < last.Token && s.What != Over {
			t.Errorf("%v comes after %v", s, last)
		}
		told += s.Missed
		if s.What == RoleChanged {
			told++
		}
		last = s
	}
	if told != changes || last.What != Over {
		t.Errorf("%d changes of %d are told or counted; the last message is %v", told, changes,
			last)
	}
}

// A margin that the lease can never outlast would be waited with in silence.
func TestAMarginThatTheLeaseCannotKeepIsRefused(t *testing.T) {
	for margin, refused := range map[time.Duration]bool{4 * time.Second: false,
		5 * time.Second: true, 10 * time.Second: true, time.Hour: true} {
		r := newRules(t, true)
		r.m.margin = margin
		r.step()
		r.renewed()
		r.m.done(r.now, outcome{op: opJoin, session: "s"})
		r.see(View{Ops: 1, Turn: true})
		e := r.step()
		if !refused {
			if e.start != opTake {
				t.Errorf("with a margin of %v it does %+v at its turn", margin, e)
			}
			continue
		}
		if len(e.messages) != 1 || !errors.Is(e.messages[0].Err, ErrInvalid) ||
			!strings.Contains(e.messages[0].Err.Error(), "Margin") {
			t.Errorf("with a margin of %v and a lease of 10s it was told %v", margin, e.messages)
		}
	}
}

func TestADutyThatCouldNotBeginWithinItsLeaseIsNoResignation(t *testing.T) {
	r := newRules(t, true)
	r.leads()
	r.m.dutyEnded(errNotBegun)
	r.renewed()
	r.see(View{Ops: 2, Mine: true, Token: 7})
	e := r.step()
	r.want(e, RoleChanged, Following)
	if !e.stopDuty || e.start != opTake {
		t.Errorf("it does %+v, want to lead again", e)
	}
}

// A process that stood still finds both at once: that its lease is over, and that its duty had
// ended by itself.
func TestADutyThatHasEndedIsNotBegunAgain(t *testing.T) {
	broken := errors.New("broken")
	for _, why := range []error{nil, broken} {
		r := newRules(t, true)
		r.leads()
		r.now = r.now.Add(9 * time.Second)
		e := r.step()
		if r.want(e, RoleChanged, Uncertain); !e.stopDuty {
			t.Fatalf("its lease is over, and it does %+v", e)
		}
		r.m.dutyEnded(why)
		r.renewed()
		r.see(View{Ops: 2, Mine: true, Token: 7})
		if e := r.step(); e.start != opLeave {
			t.Fatalf("its duty returned %v, its session lives, and it does %v, want to leave", why,
				e.start)
		}
		r.m.done(r.now, outcome{op: opLeave})
		if s := r.want(r.step(), Over, Out); s.Err != why || s.Resigned != (why == nil) {
			t.Errorf("its duty returned %v, and it ends with %v", why, s)
		}
	}
}

// The view that its record is gone may come before the answer to the write that removed it.
func TestALeaderThatHasLeftIsNotToldThatItLostTheLeadership(t *testing.T) {
	for _, v := range []View{{Ops: 2}, {Ops: 2, Leader: Candidate{ID: "other", Name: "other"}}} {
		r := newRules(t, true)
		r.leads()
		r.m.resign(false)
		r.want(r.step(), RoleChanged, Draining)
		r.m.dutyEnded(errToldToStop)
		if e := r.step(); e.start != opLeave {
			t.Fatalf("it does %v, want to leave", e.start)
		}
		r.see(v)
		r.step()
		r.m.done(r.now, outcome{op: opLeave})
		if s := r.want(r.step(), Over, Out); !s.Resigned || s.Reason != "" {
			t.Errorf("of its own resignation it is told %v", s)
		}
	}
}

// No view may ever come: a store that denies the read may deny the rest too, which only a Take
// finds out. Of what is no Take, a view has to tell first.
func TestALeadershipThatNoViewHasToldOfIsTakenAgain(t *testing.T) {
	r := newRules(t, true)
	r.leads()
	r.now = r.now.Add(9 * time.Second)
	if e := r.step(); !e.stopDuty {
		t.Fatalf("its lease is over, and it does %+v", e)
	}
	r.m.dutyEnded(errToldToStop)
	if e := r.step(); e.start != opNone {
		t.Errorf("without a lease it does %v", e.start)
	}
	r.renewed()
	if e := r.step(); e.start != opTake {
		t.Fatalf("its session lives, and it does %v, want to lead again", e.start)
	}
	r.m.done(r.now, outcome{op: opTake, err: errors.New("denied")})
	if e := r.step(); e.start != opNone || !e.wake.After(r.now) {
		t.Errorf("it was denied, and does %v at once", e.start)
	}
	r.now = r.m.retryAt
	if e := r.step(); e.start != opTake {
		t.Fatalf("a while after it was denied it does %v", e.start)
	}
	r.m.done(r.now, outcome{op: opTake}) // another leads
	r.now = r.m.retryAt
	if e := r.step(); e.start != opTake {
		t.Fatalf("a while after it was refused it does %v", e.start)
	}
	r.m.done(r.now, outcome{op: opTake, token: 8})
	if e := r.step(); !e.startDuty {
		t.Fatalf("it leads again, and does %+v", e)
	}
	r.see(View{Ops: 3, Mine: true, Token: 8, Yield: "other"})
	r.step()
	r.m.dutyEnded(errToldToStop)
	if e := r.step(); e.start != opRelease {
		t.Fatalf("it makes way, and does %v", e.start)
	}
	r.m.done(r.now, outcome{op: opRelease})
	if e := r.step(); e.start != opNone {
		t.Errorf("it has released, no view says so yet, and it does %v", e.start)
	}
}

// A new right takes a moment to reach all servers. A candidate that never gets it must not wait for
// ever.
func TestACandidateThatMayNotJoinTriesForHalfAMinute(t *testing.T) {
	r := newRules(t, true)
	r.step()
	begin := r.now
	for {
		r.m.done(r.now, outcome{op: opJoin, err: ErrDenied})
		e := r.step()
		if len(e.messages) > 0 && e.messages[0].What == Over {
			break
		}
		if r.now = r.m.retryAt; r.step().start != opJoin || r.now.Sub(begin) > time.Minute {
			t.Fatalf("after %v it does not try again, and has not ended", r.now.Sub(begin))
		}
	}
	if took := r.now.Sub(begin); took < deniedFor || !errors.Is(r.m.final.Err, ErrDenied) {
		t.Errorf("after %v it is told %v", took, r.m.final)
	}
}

func TestACandidateWhoseRecordIsGoneJoinsAgain(t *testing.T) {
	r := newRules(t, true)
	r.leads()
	r.see(View{Ops: 2})
	r.step()
	r.m.dutyEnded(errToldToStop)
	r.see(View{Ops: 2, Turn: true})
	if e := r.step(); e.start != opTake {
		t.Fatalf("at its turn it does %v", e.start)
	}
	r.m.done(r.now, outcome{op: opTake, err: ErrNoCandidate})
	if e := r.step(); e.start != opJoin {
		t.Errorf("without a record it does %v, want to join", e.start)
	}
	// It was the session that had gone, with the record.
	r.m.done(r.now, outcome{op: opJoin, err: ErrSessionLost})
	r.m.contact = Contact{Why: "expired"}
	if s := r.want(r.step(), Over, Out); !errors.Is(s.Err, ErrSessionLost) {
		t.Errorf("it ends with %v", s)
	}
}
