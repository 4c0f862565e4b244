package member

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
)

func TestLeadershipDecidesByLeaseKeyAndEpoch(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	later := now.Add(time.Hour)
	key := func(session string, modified, index uint64) LeaderKey {
		return LeaderKey{Known: true, Found: true, View: 2, Index: index,
			Entry: store.Entry{Session: session, ModifyIndex: modified}}
	}
	mine, free, another := key("s", 10, 10), LeaderKey{Known: true, View: 2, Index: 12},
		key("x", 12, 12)
	behind := key("s", 9, 9)
	leads := facts.Leadership{Role: facts.Leading, Session: "s", Term: 7, Epoch: 10}
	leading := func() leadership { return leadership{is: leads} }
	running := TermsRun{Term: 7, Busy: true}
	type change func(*leadership, *leaderInputs)
	drained := func(_ *leadership, in *leaderInputs) { in.drained, in.other = true, true }
	ends := func(m *leadership, in *leaderInputs) {
		drained(m, in)
		m.dutyEnds, in.terms.DutyOver = 7, true
	}
	handing := func(m *leadership, in *leaderInputs) {
		m.is, m.handing, in.terms = facts.Leadership{Role: facts.Vacant}, leads, TermsRun{}
	}
	for name, c := range map[string]struct {
		m      leadership
		key    LeaderKey
		change change
		op     leaderOp
		role   facts.Role
		duty   uint64 // whose duty is to end
	}{
		"without a lease nothing is known": {m: leading(), key: mine,
			change: func(_ *leadership, in *leaderInputs) { in.lease = false }},
		"nor under another session": {m: leadership{is: facts.Leadership{
			Role: facts.Leading, Session: "old"}}, key: mine},
		"a view of before the lock says nothing": {m: leadership{is: leads, sent: 2}, key: free,
			role: facts.Leading},
		"it leads on": {m: leading(), key: mine, role: facts.Leading},
		"somebody has written the key": {m: leading(), key: key("s", 11, 11), op: opRaise,
			role: facts.Leading},
		"a view is behind the epoch": {m: leading(), key: behind, role: facts.Leading},
		"for too long": {m: leadership{is: leads, behind: 2, behindAt: now.Add(-behindLimit)},
			key: behind, op: opVerify, role: facts.Leading},
		"another view is behind": {m: leadership{is: leads, behind: 1,
			behindAt: now.Add(-behindLimit)}, key: behind, role: facts.Leading},
		"the key is deleted":   {m: leading(), key: free, op: opTake, role: facts.Vacant},
		"the key is another's": {m: leading(), key: another, role: facts.Following},
		"lost by no member": {m: leading(), key: free, role: facts.Vacant,
			change: func(_ *leadership, in *leaderInputs) { in.member = false }},
		"a wait for another leader goes on": {m: leadership{is: facts.Leadership{
			Role: facts.Leading, Session: "s", Term: 7, Epoch: 10, ClearAt: later}}, key: mine,
			role: facts.Leading},
		"and is over": {m: leadership{is: facts.Leadership{Role: facts.Leading,
			Session: "s", Term: 7, Epoch: 10, ClearAt: now}}, key: mine, op: opClear,
			role: facts.Leading},

		"nothing is known": {},
		"another leads":    {key: another, role: facts.Following},
		"nobody leads":     {key: free, op: opTake},
		"no lock":          {key: key("", 12, 12), op: opTake},
		"its own lock":     {key: mine, op: opTake},
		"it is not registered": {key: free, role: facts.Vacant,
			change: func(_ *leadership, in *leaderInputs) { in.member = false }},
		"it leaves": {key: free, role: facts.Vacant,
			change: func(_ *leadership, in *leaderInputs) { in.leaving = true }},
		"it leaves, with its own lock": {key: mine, op: opTake,
			change: func(_ *leadership, in *leaderInputs) { in.leaving = true }},
		"it rests": {m: leadership{restUntil: later}, key: free, role: facts.Vacant},

		"a drained leader ends its duty": {m: leading(), key: mine, change: drained,
			role: facts.Leading, duty: 7},
		"not if nobody else may lead": {m: leading(), key: mine, role: facts.Leading,
			change: func(_ *leadership, in *leaderInputs) { in.drained = true }},
		"nor before its term runs": {m: leading(), key: mine, role: facts.Leading,
			change: func(m *leadership, in *leaderInputs) { drained(m, in); in.terms.Term = 0 }},
		"nor soon after it has handed over": {m: leadership{is: leads, handedAt: now}, key: mine,
			change: drained, role: facts.Leading},
		"an order that is taken back": {m: leadership{is: leads, dutyEnds: 7}, key: mine,
			role: facts.Leading},
		"an unfit leader ends its duty, whoever may lead": {m: leadership{is: leads,
			handedAt: now}, key: mine, role: facts.Leading, duty: 7,
			change: func(_ *leadership, in *leaderInputs) { in.unfit = "key:write" }},
		"it hands over when the duty has ended": {m: leading(), key: mine, change: ends,
			role: facts.Vacant},
		"it waits for its term": {key: mine, role: facts.Vacant,
			change: func(m *leadership, in *leaderInputs) { handing(m, in); in.terms = running }},
		"and deletes the key": {key: mine, op: opResign, role: facts.Vacant, change: handing},
		"not without a lease": {key: mine, role: facts.Vacant,
			change: func(m *leadership, in *leaderInputs) { handing(m, in); in.lease = false }},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.m
			in := leaderInputs{now: now, session: "s", lease: true, member: true, key: c.key,
				terms: running}
			if c.change != nil {
				c.change(&m, &in)
			}
			op, _ := m.step(in)
			if op != c.op || m.is.Role != c.role || m.dutyEnds != c.duty {
				t.Errorf("does %v, is %v, ends the duty of %d; want %v, %v, %d", op, m.is.Role,
					m.dutyEnds, c.op, c.role, c.duty)
			}
		})
	}
}

func TestAMemberThatHandedOverLeavesTheLeadershipToOthers(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		unfit string
		rest  time.Duration
	}{"drained": {"", drainedRest}, "unfit": {"key:write", unfitRest}} {
		m := leadership{is: facts.Leadership{Role: facts.Leading, Session: "s", Term: 7,
			Epoch: 7}}
		in := leaderInputs{now: now, session: "s", lease: true, member: true, drained: true,
			other: true, unfit: c.unfit, terms: TermsRun{Term: 7, Busy: true},
			key: LeaderKey{Known: true, Found: true, View: 1, Index: 7,
				Entry: store.Entry{Session: "s", ModifyIndex: 7}}}
		m.step(in)
		in.terms.DutyOver = true
		m.step(in)
		in.terms = TermsRun{}
		if op, _ := m.step(in); op != opResign {
			t.Fatalf("%s: does %v, not %v", name, op, opResign)
		}
		m.handedOver(now, false)
		in.key = LeaderKey{Known: true, View: 2, Index: 9}
		if op, at := m.step(in); op != opNone || !at.Equal(now.Add(c.rest)) {
			t.Errorf("%s: does %v until %v", name, op, at)
		}
		in.now = now.Add(c.rest)
		if op, _ := m.step(in); op != opTake {
			t.Errorf("%s: does %v, not %v, after its rest", name, op, opTake)
		}
	}
}
