package actors

import (
	"context"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/internal/leader"
	"github.com/coordd/coordd/actors/internal/member"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// cells are the states and mailboxes of one member: all that its actors share.
// They outlive every incarnation of every actor.
type cells struct {
	capacity    *messages.State[uint64]   // the host's own wish
	tags        *messages.State[[]string] // likewise
	session     *messages.State[facts.Session]
	check       *messages.State[facts.Check]
	record      *messages.State[member.OwnRecord]
	membership  *messages.State[facts.Membership]
	leaderKey   *messages.State[member.LeaderKey]
	leadership  *messages.State[facts.Leadership]
	members     *messages.State[facts.Members]
	acks        *messages.State[facts.Acks]
	workload    *messages.State[facts.Workload]
	control     *messages.State[facts.Control]
	plan        *messages.State[facts.Distribution]
	assignments *messages.State[facts.Assignments]
	holdings    *messages.State[facts.Holdings]
	leave       *messages.Mailbox[member.LeaveOrder, struct{}]
	bump        *messages.Mailbox[facts.Bump, facts.Leadership]
	acksOut     *messages.Mailbox[member.AckWrite, struct{}] // of this member's own ack
	unfit       *messages.State[facts.Unfit]
	terms       *messages.State[member.TermsRun]
	dutyEnds    *messages.State[uint64]
	records     *member.WorkRecords
	behind      *messages.State[time.Time] // see member.StatePublisher
}

func newCells(b *actor.Base) *cells {
	return &cells{
		capacity:    messages.NewState(uint64(0)),
		tags:        messages.NewState([]string(nil)),
		session:     messages.NewState(facts.Session{}),
		check:       messages.NewState(facts.Check{}),
		record:      messages.NewState(member.OwnRecord{}),
		membership:  messages.NewState(facts.Membership{}),
		leaderKey:   messages.NewState(member.LeaderKey{}),
		leadership:  messages.NewState(facts.Leadership{}),
		members:     messages.NewState(facts.Members{}),
		acks:        messages.NewState(facts.Acks{}),
		workload:    messages.NewState(facts.Workload{}),
		control:     messages.NewState(facts.Control{}),
		plan:        messages.NewState(facts.Distribution{}),
		assignments: messages.NewState(facts.Assignments{}),
		holdings:    messages.NewState(facts.Holdings{}),
		leave:       messages.NewMailbox[member.LeaveOrder, struct{}](),
		bump:        messages.NewMailbox[facts.Bump, facts.Leadership](),
		acksOut:     messages.NewMailbox[member.AckWrite, struct{}](),
		unfit:       messages.NewState(facts.Unfit{}),
		terms:       messages.NewState(member.TermsRun{}),
		dutyEnds:    messages.NewState[uint64](0),
		records:     member.NewWorkRecords(b.MaxRestarts, b.RestartWindow, b.StopTimeout),
		behind:      messages.NewState(time.Time{}),
	}
}

// tree wires the member's actors, in the order in which they start. They stop in
// reverse, and that order is the hand-over: the workers stop and release, the term's
// actors stop, the leadership is given up, the record goes, the session is destroyed.
func tree(b *actor.Base, c *cells, routes supervisor.Tree) supervisor.Tree {
	session, membership := c.session.Reader(), c.membership.Reader()
	record, leadership := c.record.Reader(), c.leadership.Reader()
	holdings := c.holdings.Reader()
	lease := member.NewLeaseEnforcer(b, session)
	renewer := member.NewSessionRenewer(b, c.session, c.check.Reader(), record, holdings)
	keeper := member.NewMembershipKeeper(b, c.membership, session, record, holdings,
		c.capacity.Reader(), c.leave, c.acksOut)
	tracker := member.NewLeaderTracker(b, c.leadership, member.TrackerInputs{Session: session,
		Membership: membership, Key: c.leaderKey.Reader(), Terms: c.terms.Reader(),
		Control: c.control.Reader(), Members: c.members.Reader(), Unfit: c.unfit.Reader(),
	}, c.bump, c.dutyEnds, lease)
	terms := member.NewTermRunner(b, leadership,
		func(term uint64) supervisor.Tree { return termTree(b, c, term) }, lease,
		c.dutyEnds.Reader(), c.terms)
	workers := member.NewWorkerManager(b, c.holdings, session, membership, c.assignments.Reader(),
		c.leave, c.acksOut, lease, c.records)
	states := member.NewStatePublisher(b, session, membership, c.assignments.Reader(), holdings,
		c.records, c.acksOut, c.behind)
	// First, so that it stops last: who asks where the items are sees them leave.
	children := []supervisor.Child{{Name: "routing", Tree: &routes}}
	if b.CheckTTL > 0 { // before the session, so that the check passes until that has ended
		instance := messages.NewState(member.NewInstance(b))
		told := member.Told{Session: session, Membership: membership, Leadership: leadership,
			Plan: c.plan.Reader(), Holdings: holdings, Tags: c.tags.Reader(),
			Records: c.records, Behind: c.behind.Reader()}
		checks := member.NewCheckKeeper(b, c.check, instance.Reader(), told)
		publisher := member.NewInstancePublisher(b, instance, told)
		children = append(children, child(b, "check-keeper", checks.Run),
			child(b, "instance-publisher", publisher.Run))
	}
	return supervisor.Tree{
		Strategy: supervisor.OneForOne,
		Children: append(children, []supervisor.Child{
			child(b, "session-renewer", renewer.Run),
			{Name: "lease-enforcer", Run: lease.Run},
			child(b, "record-watcher", member.NewRecordWatcher(b, c.record).Run),
			takes(child(b, "membership-keeper", keeper.Run)),
			child(b, "state-publisher", states.Run),
			child(b, "leader-watcher", member.NewLeaderWatcher(b, c.leaderKey).Run),
			takes(child(b, "leader-tracker", tracker.Run)),
			{Name: "leader-terms", Tree: &supervisor.Tree{
				Strategy: supervisor.OneForOne,
				Children: []supervisor.Child{child(b, "term-runner", terms.Run)},
			}},
			child(b, "assignment-watcher",
				member.NewAssignmentWatcher(b, c.assignments, membership).Run),
			{Name: "workers", Tree: &supervisor.Tree{
				// Items start and fail on their own account: none of them may bring the member
				// down.
				Strategy: supervisor.OneForOne, MaxRestarts: -1, StopTogether: true,
				Children: []supervisor.Child{{
					Name: member.ManagerName, Run: b.Tracked(workers.Run),
					StopTimeout: b.StopTimeout + actorStops,
				}},
			}},
		}...),
	}
}

// termTree has the leader's actors for one term. The assigner starts when its watchers
// have read; a watcher that fails takes those after it along, so that nothing is
// planned on what it had left behind.
func termTree(b *actor.Base, c *cells, term uint64) supervisor.Tree {
	assigner := leader.NewAssigner(b, term, c.leadership.Reader(), c.members.Reader(),
		c.acks.Reader(), c.workload.Reader(), c.control.Reader(), c.bump, c.plan, c.unfit)
	return supervisor.Tree{
		Strategy: supervisor.RestForOne,
		Children: []supervisor.Child{
			child(b, "member-watcher", leader.NewMemberWatcher(b, term, c.members).Run),
			child(b, "ack-watcher", leader.NewAckWatcher(b, term, c.acks).Run),
			child(b, "workload-watcher", leader.NewWorkloadWatcher(b, term, c.workload).Run),
			child(b, "control-watcher", leader.NewControlWatcher(b, term, c.control).Run),
			child(b, "assigner", assigner.Run),
		},
	}
}

// actorStops is how long an actor may take to stop: its last call, and some more on a busy machine.
const actorStops = actor.LastCallTimeout + 1500*time.Millisecond

// takes is a child that waits for the answer to its last take when it is told to stop, and hands
// over then what it has taken: see [actor.Base.Answered].
func takes(c supervisor.Child) supervisor.Child {
	c.StopTimeout += store.DefaultCallTimeout
	return c
}

func child(b *actor.Base, name string, run func(context.Context) error) supervisor.Child {
	return supervisor.Child{Name: name, Run: b.Tracked(run), StopTimeout: actorStops,
		HealthyAfter: 10 * time.Second}
}
