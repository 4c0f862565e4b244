package leader

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
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
		check := func(who string, x absences) {
			t.Helper()
			is, _ := x.found("m", c.now, grace, 0, 0)
			if !c.same && (!is.since.Equal(now) || is.grace != grace) ||
				c.same && (!is.since.Equal(c.before.since) || is.grace != grace) {
				t.Errorf("%s, %s: since %v for %v", who, name, is.since.Sub(now), is.grace)
			}
		}
		same, successor := newAbsences(), newAbsences()
		same.away["m"] = c.before
		check("the same leader", same)
		successor.handed["m"] = protocol.Waited{Ack: c.before.ack, Session: c.before.session,
			Sentinel: c.before.sentinel, For: now.Sub(c.before.since), Of: grace}
		check("its successor", successor)
	}
}

// The first of two acks under one sentinel may be the stranger's, or the second: neither counts.
func TestWhereAnAckHasMovedTheLeaseThatTheSentinelNamesIsWaitedFor(t *testing.T) {
	const lease, week = 10 * time.Second, 168 * time.Hour
	for name, c := range map[string]struct {
		first   time.Duration
		stopped bool
		says    time.Duration
		lease   time.Duration // that the sentinel names
		least   time.Duration // --grace
		want    time.Duration
	}{
		"it says more":                 {lease, false, week, lease, 0, lease},
		"it says less":                 {lease, false, time.Second, lease, 0, lease},
		"the first said more":          {week, false, lease, lease, 0, lease},
		"first more, then less":        {week, false, time.Second, lease, 0, lease},
		"the first said less":          {2 * time.Second, false, lease, lease, 0, lease},
		"first less, then more":        {2 * time.Second, false, week, lease, 0, lease},
		"both say more":                {2 * week, false, week, lease, 0, lease},
		"both say less":                {3 * time.Second, false, time.Second, lease, 0, lease},
		"items are kept":               {week, true, lease, lease, 0, week},
		"it stopped":                   {0, true, week, lease, 0, lease},
		"--grace":                      {time.Minute, false, week, lease, time.Minute, time.Minute},
		"--grace, first more":          {week, false, time.Minute, lease, time.Minute, time.Minute},
		"no lease known":               {lease, false, week, 0, 0, week},
		"no lease known, then it less": {week, false, lease, 0, 0, week},
	} {
		now, x := time.Now(), newAbsences()
		x.away["m"] = absence{since: now.Add(-time.Second), ack: 5, session: "s", sentinel: 3,
			grace: c.first, stopped: c.stopped}
		for ack := range uint64(2) { // the stranger may write more than once
			x.found("m", absence{since: now, ack: 7 + ack, session: "s", sentinel: 3,
				grace: c.says}, c.lease, c.least, 0)
		}
		if is := x.away["m"]; is.grace != c.want || is.stopped != c.stopped {
			t.Errorf("%s: waited for for %v, stopped %v, want %v", name, is.grace, is.stopped,
				c.want)
		}
	}
	for stopped, want := range map[bool]time.Duration{false: lease, true: 20 * time.Minute} {
		x := newAbsences()
		x.handed["m"] = protocol.Waited{Ack: 5, Session: "s", Sentinel: 3, Of: 20 * time.Minute}
		if is, _ := x.found("m", absence{since: time.Now(), ack: 7, session: "s", sentinel: 3,
			grace: week, stopped: stopped}, lease, 0, 0); is.grace != want {
			t.Errorf("stopped %v: a successor waits for %v, want %v", stopped, is.grace, want)
		}
	}
}

// A stranger's ack may name any session that is gone. The member that is to be gone is the one that
// has registered last.
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
	if c := a.confirm(ctx, "m"); c.err != nil || c.since.IsZero() || c.sentinel == 0 ||
		c.index <= c.sentinel || c.lease != 10*time.Second {
		t.Errorf("%+v: want one that is gone", c)
	}
}
