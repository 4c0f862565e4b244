package actors

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// cells are the states and mailboxes of one member: all that its actors share.
// They outlive every incarnation of every actor.
type cells struct {
	session     *messages.State[messages.Session]
	record      *messages.State[ownRecord]
	membership  *messages.State[messages.Membership]
	leaderKey   *messages.State[leaderKey]
	leadership  *messages.State[messages.Leadership]
	members     *messages.State[messages.Members]
	acks        *messages.State[messages.Acks]
	workload    *messages.State[messages.Workload]
	control     *messages.State[messages.Control]
	plan        *messages.State[messages.Plan]
	assignments *messages.State[messages.Assignments]
	holdings    *messages.State[messages.Holdings]
	leave       *messages.Mailbox[leaveOrder, struct{}]
	bump        *messages.Mailbox[messages.Bump, messages.Leadership]
}

func newCells() *cells {
	return &cells{
		session:     messages.NewState(messages.Session{}),
		record:      messages.NewState(ownRecord{}),
		membership:  messages.NewState(messages.Membership{}),
		leaderKey:   messages.NewState(leaderKey{}),
		leadership:  messages.NewState(messages.Leadership{}),
		members:     messages.NewState(messages.Members{}),
		acks:        messages.NewState(messages.Acks{}),
		workload:    messages.NewState(messages.Workload{}),
		control:     messages.NewState(messages.Control{}),
		plan:        messages.NewState(messages.Plan{}),
		assignments: messages.NewState(messages.Assignments{}),
		holdings:    messages.NewState(messages.Holdings{}),
		leave:       messages.NewMailbox[leaveOrder, struct{}](),
		bump:        messages.NewMailbox[messages.Bump, messages.Leadership](),
	}
}

// tree wires the member's actors, in the order in which they start. They stop in
// reverse, and that order is the hand-over: the workers stop and release, the term's
// actors stop, the leadership is given up, the record goes, the session is destroyed.
func tree(h *base, c *cells) supervisor.Tree {
	renewer := &sessionRenewer{base: h, out: c.session, record: c.record.Reader(),
		holdings: c.holdings.Reader()}
	keeper := &membershipKeeper{
		base: h, out: c.membership, session: c.session.Reader(), record: c.record.Reader(),
		holdings: c.holdings.Reader(), leave: c.leave,
	}
	tracker := &leaderTracker{
		base: h, out: c.leadership, session: c.session.Reader(), membership: c.membership.Reader(),
		key: c.leaderKey.Reader(), bump: c.bump, odd: protocol.StrangeKeys{Log: h.log},
	}
	terms := &termRunner{base: h, leadership: c.leadership.Reader(),
		term: func(term uint64) supervisor.Tree { return termTree(h, c, term) }}
	workers := &workers{
		base: h, out: c.holdings, session: c.session.Reader(), membership: c.membership.Reader(),
		assignments: c.assignments.Reader(), leave: c.leave, table: newWorkTable(),
	}
	routes := h.routes.Tree()
	return supervisor.Tree{
		Strategy: supervisor.OneForOne,
		Children: []supervisor.Child{
			// First, so that it stops last: who asks where the items are sees them leave.
			{Name: "routing", Tree: &routes},
			h.actor("session-renewer", renewer.run),
			{Name: "lease-enforcer", Run: h.leaseEnforcer.run},
			h.actor("record-watcher", newRecordWatcher(h, c.record).run),
			h.actor("membership-keeper", keeper.run),
			h.actor("leader-watcher", newLeaderWatcher(h, c.leaderKey).run),
			h.actor("leader-tracker", tracker.run),
			{Name: "leader-terms", Tree: &supervisor.Tree{
				Strategy: supervisor.OneForOne,
				Children: []supervisor.Child{h.actor("term-runner", terms.run)},
			}},
			h.actor("assignment-watcher", newAssignmentWatcher(h, c.assignments).run),
			{Name: "workers", Tree: &supervisor.Tree{
				// Items start and fail on their own account: none of them may bring the member
				// down.
				Strategy: supervisor.OneForOne, MaxRestarts: -1, StopTogether: true,
				Children: []supervisor.Child{{
					Name: workerManager, Run: h.watched(workers.run),
					StopTimeout: h.StopTimeout + 5*goodbyeTimeout,
				}},
			}},
		},
	}
}

// termTree has the leader's actors for one term. The assigner starts when its watchers
// have read; a watcher that fails takes those after it along, so that nothing is
// planned on what it had left behind.
func termTree(h *base, c *cells, term uint64) supervisor.Tree {
	a := &assigner{
		base: h, term: term, leadership: c.leadership.Reader(), members: c.members.Reader(),
		acks:     c.acks.Reader(),
		workload: c.workload.Reader(), control: c.control.Reader(), bump: c.bump, out: c.plan,
	}
	return supervisor.Tree{
		Strategy: supervisor.RestForOne,
		Children: []supervisor.Child{
			h.actor("member-watcher", newMemberWatcher(h, term, c.members).run),
			h.actor("ack-watcher", newAckWatcher(h, term, c.acks).run),
			h.actor("workload-watcher", newWorkloadWatcher(h, term, c.workload).run),
			h.actor("control-watcher", newControlWatcher(h, term, c.control).run),
			h.actor("assigner", a.run),
		},
	}
}

func (h *base) actor(name string, run func(context.Context) error) supervisor.Child {
	return supervisor.Child{Name: name, Run: h.watched(run), StopTimeout: 5 * goodbyeTimeout,
		HealthyAfter: 10 * time.Second}
}
