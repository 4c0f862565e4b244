package leader

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// A registration writes the ack. So a member was not back while that is what it was.
func TestAnAbsenceIsTheSameWhileTheAckIs(t *testing.T) {
	const grace = 10 * time.Second
	now := time.Now()
	before := absence{since: now.Add(-7 * time.Second), ack: 5, session: "s1", grace: grace}
	doubtful := before
	doubtful.doubt = true
	for name, c := range map[string]struct {
		before, now absence
		same        bool
	}{
		"all as it was":                 {before, absence{ack: 5, session: "s1"}, true},
		"a write about it was refused":  {doubtful, absence{ack: 5, session: "s1"}, true},
		"it was back":                   {before, absence{ack: 9, session: "s2"}, false},
		"it was back, with its session": {before, absence{ack: 9, session: "s1"}, false},
		"an ack that names another one": {before, absence{ack: 5, session: "s2"}, false},
		"the ack was deleted":           {before, absence{session: "s1"}, false},
	} {
		c.now.since, c.now.grace = now, grace
		check := func(who string, x absences) {
			t.Helper()
			is, _ := x.found("m", c.now, 0)
			if is.grace != grace || !c.same && !is.since.Equal(now) ||
				c.same && !is.since.Equal(c.before.since) {
				t.Errorf("%s, %s: since %v for %v", who, name, is.since.Sub(now), is.grace)
			}
		}
		same, successor := newAbsences(), newAbsences()
		same.away["m"] = c.before
		check("the same leader", same)
		successor.handed["m"] = protocol.Waited{Ack: c.before.ack, Session: c.before.session,
			For: now.Sub(c.before.since), Of: grace}
		check("its successor", successor)
	}
}

// The sentinel names the session that has registered last too. The member lives while that does.
func TestNoMemberIsGoneWhileTheSessionOfItsRegistrationLives(t *testing.T) {
	a, ctx := newCells().assigner(t, actor.Settings{}, nil), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	session, _, err := a.Store.CreateSession(ctx, store.SessionOptions{Name: "demo/m",
		TTL: 10 * time.Second})
	must(err)
	must(keys.Put(ctx, a.Store, a.Keys.AssignmentsOf("m"), protocol.Sentinel(session, 1,
		10*time.Second), 0))
	must(keys.Put(ctx, a.Store, a.Keys.Ack("m"), protocol.Ack{Counter: 7, TTL: 10 * time.Second,
		Session: "00970ff2-0000-0000-0000-000000000001"}.Encode(), 0))
	a.known = known{}
	if c := a.confirm(ctx, "m"); c.err != nil || !c.since.IsZero() {
		t.Errorf("%+v: want a member that is there", c)
	}
	must(a.Store.DestroySession(ctx, session))
	if c := a.confirm(ctx, "m"); c.err != nil || c.since.IsZero() || c.index == 0 {
		t.Errorf("%+v: want one that is gone", c)
	}
}
