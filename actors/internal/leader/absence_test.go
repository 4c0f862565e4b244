package leader

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// A registration writes the ack and the sentinel. So a member was not back if one of the two is
// what it was, whatever a stranger has done to the other; and it may have been if neither is.
func TestAnAbsenceIsTheSameWhileTheAckOrTheSentinelIs(t *testing.T) {
	const s1, s2, grace = "s1", "s2", 10 * time.Second
	now := time.Now()
	before := absence{since: now.Add(-7 * time.Second), ack: 5, session: s1, sentinel: 3,
		grace: grace}
	noSentinel := before
	noSentinel.sentinel = 0
	for name, c := range map[string]struct {
		before, now absence
		same        bool
	}{
		"all as it was": {before, absence{ack: 5, session: s1, sentinel: 3, grace: grace}, true},
		"another ack":   {before, absence{ack: 9, session: s1, sentinel: 3, grace: grace}, true},
		"an ack that says less": {before, absence{ack: 9, session: s2, sentinel: 3,
			grace: time.Second}, true},
		"no ack":           {before, absence{session: s1, sentinel: 3, grace: grace}, true},
		"another sentinel": {before, absence{ack: 5, session: s1, sentinel: 9, grace: grace}, true},
		"no sentinel":      {before, absence{ack: 5, session: s1, grace: grace}, true},
		"it was back":      {before, absence{ack: 9, session: s2, sentinel: 9, grace: grace}, false},
		"it was back, with its session": {before, absence{ack: 9, session: s1, sentinel: 9,
			grace: grace}, false},
		"it was back, and no sentinel is known": {noSentinel, absence{ack: 9, session: s1,
			grace: grace}, false},
		"an ack that names another session": {noSentinel, absence{ack: 5, session: s2,
			grace: grace}, false},
	} {
		c.now.since = now
		check := func(who string, a *Assigner) {
			t.Helper()
			is := a.sameAbsence("m", c.now, grace)
			if !c.same && (!is.since.Equal(now) || is.grace != grace) ||
				c.same && (!is.since.Equal(c.before.since) || is.grace != grace) {
				t.Errorf("%s, %s: since %v for %v", who, name, is.since.Sub(now), is.grace)
			}
		}
		base := &actor.Base{}
		check("the same leader", &Assigner{Base: base, absent: map[string]absence{"m": c.before}})
		check("its successor", &Assigner{Base: base, handed: map[string]protocol.Waited{
			"m": {Ack: c.before.ack, Session: c.before.session, Sentinel: c.before.sentinel,
				For: now.Sub(c.before.since), Of: grace}}})
	}
}

// A stranger's ack may name any session that is gone. The member that is to be gone is the one that
// has registered last.
func TestNoMemberIsGoneWhileTheSessionOfItsRegistrationLives(t *testing.T) {
	a, ctx := newViews().assigner(t, actor.Settings{}, nil), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	session, _, err := a.Store.CreateSession(ctx, store.SessionOptions{Name: "demo/m",
		TTL: 10 * time.Second})
	must(err)
	must(a.Store.Put(ctx, a.Keys.AssignmentsOf("m"), protocol.Sentinel(session, 1,
		10*time.Second), 0))
	must(a.Store.Put(ctx, a.Keys.Ack("m"), protocol.Ack{Counter: 7, TTL: 10 * time.Second,
		Session: "00970ff2-0000-0000-0000-000000000001"}.Encode(), 0))
	a.assigned = newAssignmentCache()
	if c := a.confirm(ctx, "m"); c.err != nil || !c.since.IsZero() {
		t.Errorf("%+v: want a member that is there", c)
	}
	must(a.Store.DestroySession(ctx, session))
	if c := a.confirm(ctx, "m"); c.err != nil || c.since.IsZero() || c.sentinel == 0 ||
		c.index <= c.sentinel || c.lease != 10*time.Second {
		t.Errorf("%+v: want one that is gone", c)
	}
}
