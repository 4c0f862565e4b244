package actors_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// What it means that an actor hangs while the member runs. Go cannot end a
// goroutine, so nothing can be restarted; what holds is that the others go on, that
// no item is worked on twice, and that all is well again when the actor wakes up.
//
//	session-renewer     the work stops with the lease; others take everything over, the leadership
//	                    too
//	record-watcher      nothing, until the record is lost: then nobody notices before the session
//	                    ends
//	membership-keeper   nothing, until the record is lost: then it is not written again
//	leader-watcher      nothing, until the leadership is lost: its assigner then runs on, and
//	                    Consul refuses its writes
//	leader-tracker      nothing, until an epoch is needed, as when a stranger touched the key:
//	                    then nothing is assigned
//	term-runner         nothing, until the leadership changes hands: then the term's actors do not
//	                    start, or they do not stop and find their writes refused
//	member-watcher      members that come get nothing, those that vanish are not taken over
//	ack-watcher         what members give up is not noticed: such items wait
//	workload-watcher    new items wait, removed ones go on
//	control-watcher     orders are not heard
//	assigner            nothing is assigned
//	assignment-watcher  this member starts and stops nothing; what it runs, it owns
//	check-keeper        the session ends with the check: the work stops, others take everything
//	                    over
//	instance-publisher  what Consul's catalog says of n1 beside its check stays as it was
//	state-publisher     what n1 says of its items' work stays as it was
//	worker-manager      the same as assignment-watcher; if the lease ends as well, the
//	                    lease-enforcer ends the work
//
// That lasts until the session-renewer finds that an actor hangs: see
// TestAMemberOfWhichAnActorHangsGivesUpWhatItHolds.
var whileItHangs = map[string]struct {
	stops bool // n1's work has stopped
	waits bool // some of the items that are added meanwhile do not start
}{
	"session-renewer": {stops: true}, "record-watcher": {}, "membership-keeper": {},
	"leader-watcher": {}, "leader-tracker": {waits: true}, "term-runner": {},
	"member-watcher": {}, "ack-watcher": {}, "workload-watcher": {waits: true},
	"control-watcher": {}, "assigner": {waits: true},
	"assignment-watcher": {waits: true}, "worker-manager": {waits: true},
	"check-keeper": {stops: true}, "instance-publisher": {}, "state-publisher": {},
}

// hangs starts n1, which leads, and n2, and has an actor of n1 hang.
func (c *cluster) hangs(actor string) (n1 *member, s *saboteur) {
	c.t.Helper()
	c.addWork(c.items(4)...)
	s = newSaboteur(actor, atMessage, 1<<30, hangs)
	n1 = c.sabotaged(s)
	time.Sleep(2 * time.Second)
	c.start("n2")
	c.await("shared out", 20*time.Second, c.balanced(4))
	time.Sleep(5 * time.Second)
	s.mu.Lock()
	s.at = s.seen[actor] + 1
	s.mu.Unlock()
	c.provoke(actor)
	c.await("the hang", 15*time.Second, s.didFire)
	return n1, s
}

func TestAnActorThatHangsLeavesTheOthersAtWorkAndNothingRunsTwice(t *testing.T) {
	for _, actor := range everyActor {
		t.Run(actor, func(t *testing.T) {
			run(t, func(c *cluster) {
				n1, s := c.hangs(actor)
				defer s.free()
				lease := n1.c.Session().Get().Lease
				want := whileItHangs[actor]
				for i := range 4 {
					c.addWork(fmt.Sprintf("meanwhile-%d", i))
				}
				time.Sleep(time.Until(lease.Start.Add(lease.TTL)))
				if stopped := c.loads()["n1"] == 0; stopped != want.stops {
					t.Errorf("at the end of the lease that it had, n1 runs %d items",
						c.loads()["n1"])
				}
				time.Sleep(40 * time.Second)
				total := 8
				if waits := !(sum(c.loads()) == total); waits != want.waits {
					t.Errorf("%d of %d items run while %s hangs", sum(c.loads()), total, actor)
				}
				if leads := n1.c.Leadership().Get().Role == facts.Leading; leads == want.stops {
					t.Errorf("n1 leads: %v", leads)
				}
				for name, r := range incarnations(n1.c.Report()) {
					if r.Incarnation > 1 {
						t.Errorf("%s is in incarnation %d: %v", name, r.Incarnation, r.LastCause)
					}
				}
				s.free()
				c.await("all in order again", 40*time.Second, c.balanced(total))
				c.delete("leader") // all that was held back is looked at anew
				time.Sleep(20 * time.Second)
				c.await("in order in the end", 20*time.Second, c.balanced(total))
				c.consistent()
			})
		})
	}
}

// An actor that hangs holds nothing for ever: its member lets its lease end, and others take over
// what it had, the leadership too. When it goes on, all is well again.
func TestAMemberOfWhichAnActorHangsGivesUpWhatItHolds(t *testing.T) {
	for _, actor := range everyActor {
		t.Run(actor, func(t *testing.T) {
			run(t, func(c *cluster) {
				n1, s := c.hangs(actor)
				defer s.free()
				for i := range 4 {
					c.addWork(fmt.Sprintf("meanwhile-%d", i))
				}
				settings := n1.c.Settings()
				if actor == "check-keeper" { // it loses a session, and the next has no check
					settings.CheckTTL = actors.NoCheck
				}
				b := settings.Bounds()
				limit := actors.StuckAfter + settings.Renew + b.TakeOver.Total() +
					b.OfLeader.Total()
				took := c.await("all at n2", limit, func() bool {
					loads := c.loads()
					return loads["n1"] == 0 && loads["n2"] == 8 && c.leader() == "n2"
				})
				t.Logf("given up and taken over within %v", took)
				c.mu.Lock()
				if n := c.leading["n1"]; n != 0 {
					t.Error("n1's duty still runs")
				}
				c.mu.Unlock()
				s.free()
				c.await("all in order again", 60*time.Second, c.balanced(8))
				time.Sleep(20 * time.Second)
				c.delete("leader") // all that was held back is looked at anew
				time.Sleep(20 * time.Second)
				c.await("in order in the end", 20*time.Second, c.balanced(8))
				c.consistent()
			})
		})
	}
}

// provoke gives an actor of n1 a message without changing anything that counts.
func (c *cluster) provoke(actor string) {
	switch actor {
	case "record-watcher", "membership-keeper", "member-watcher":
		c.put("members/n1", "a stranger")
	case "leader-watcher", "leader-tracker", "term-runner":
		c.put("leader", "a stranger")
	case "workload-watcher", "assigner", "assignment-watcher",
		"state-publisher":
		c.addWork("meanwhile-0", "meanwhile-1", "meanwhile-2", "meanwhile-3")
	case "instance-publisher":
		c.must(c.members["n1"].c.SetTags("provoked"))
	case "ack-watcher":
		c.put("acks/a/stranger", "x")
	case "control-watcher":
		c.put("control/a/stranger", "x")
	}
}

// A call that Consul does not answer keeps the worker manager from looking at the lease,
// so it must not last longer than the lease allows: whose session was ended early
// has a successor one TTL later.
func TestAFrozenCallOfTheWorkerManagerDoesNotOutlastTheLease(t *testing.T) {
	for phase := range 20 {
		run(t, func(c *cluster) {
			c.addWork(c.items(4)...)
			m := c.start("n1", func(cfg *actors.Config) { cfg.LeaderSoak = time.Second })
			c.await("all at n1", 20*time.Second, c.balanced(4))
			time.Sleep(time.Duration(phase) * 171 * time.Millisecond)
			// From now on nothing of n1 is answered, and what it has to start waits for Consul.
			frozen := make(chan struct{})
			m.net.Via(frozenFor(c.consul.RoundTripper(), "worker-manager", frozen))
			c.addWork("more-1", "more-2")
			c.await("the worker manager's view of them", 5*time.Second, func() bool {
				return m.c.Assignments().Get().Items.Len() == 6
			})
			m.net.Cut(errors.New("cut off"))
			m.net.Via(frozenFor(c.consul.RoundTripper(), "", frozen))
			m.net.Cut(nil)
			lease := m.c.Session().Get().Lease
			end := lease.Start.Add(lease.TTL)
			time.Sleep(time.Until(end))
			if now := m.c.Session().Get().Lease; now == lease && c.loads()["n1"] != 0 {
				t.Errorf("phase %d: n1 still works on %d items at the end of its lease", phase,
					c.loads()["n1"])
			}
			close(frozen)
		})
	}
}

// frozenFor answers no request of one actor, or of any, until thawed is closed.
func frozenFor(to http.RoundTripper, actor string, thawed chan struct{}) http.RoundTripper {
	return transport.When(to, func(r *http.Request) bool { return transport.By(r, actor) },
		transport.Frozen(to, thawed))
}
