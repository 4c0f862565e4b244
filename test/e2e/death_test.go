//go:build linux

package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// The defaults that the binary states in its help.
const (
	ttl   = 10 * time.Second
	renew = ttl / 3
	grace = ttl
)

// soon is within what a killed coordd's items run elsewhere. It is about a second on a machine that
// does nothing else; what this must tell apart is the session, which lasts for another ttl at the
// least and two at the most, and the grace after it.
const soon = 3 * ttl

// unhurried members have sessions that outlast soon: what is done soon after a death did not wait
// for one.
var unhurried = []string{"--ttl", soon.String()}

// patient lets a killed coordd's items wait long enough for it to be started again on any machine.
var patient = []string{"--restart-wait", "19s"}

// takeover is the longest time from a member's death until all of its items run elsewhere if nobody
// hands them over: Consul ends a session after twice its TTL at the latest, a lock can be taken a
// lock-delay later, the grace follows, and then 0.25 s to 1 s of merging and 0.5 s of worker soak.
// The rest is for the machine.
const takeover = 2*ttl + time.Second + grace + 1500*time.Millisecond + 10*time.Second

func TestAKilledMembersItemsRunElsewhereSoonAndNothingElseMoves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		leader bool
	}{{"follower", false}, {"leader", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, realconsul.Shared(t).Addr())
			s.diaries = true
			s.startThree(unhurried...)
			items := s.share(99)
			id := s.follower()
			if c.leader {
				id = s.now().Leader.ID
			}
			its, mark := s.of(id), s.mark()
			begin := time.Now()
			s.members[id].Kill()
			testkit.Await(t, workLimit, "its items run elsewhere", func() string {
				if n := len(s.since(mark).starts()); n < len(its) {
					return fmt.Sprintf("%d of %d do", n, len(its))
				}
				return ""
			})
			moved := s.since(mark)
			starts := moved.starts()
			first, last := starts[0].at.Sub(begin), starts[len(starts)-1].at.Sub(begin)
			if last > soon {
				t.Errorf("the last item was taken over after %v: nobody handed it over\n%s", last,
					tail(s.members[id].stderr(), 5))
			}
			testkit.Await(t, workLimit, "two members with their shares", func() string {
				return s.now().unlike(2, len(items))
			})
			s.runs(items)
			if all := s.since(mark); !slices.Equal(all.starts().items(), its) ||
				!slices.Equal(all.stops().items(), its) {
				t.Errorf("%s had %d items; %d stopped and %d were started", id, len(its),
					len(all.stops()), len(all.starts()))
			}
			if pids := s.left(id); len(pids) > 0 {
				t.Errorf("%d processes of %s are left", len(pids), id)
			}
			testkit.Await(t, soon, "Consul shows it no more", func() string {
				var all []instance // Consul itself takes it away 1 min after its check has ended
				fetch(t, realconsul.Shared(t).Addr(), "/v1/health/service/"+s.name, &all)
				for _, i := range all {
					if i.Service.Meta["coordd-member"] == id {
						return testkit.Instead(i.Service.ID)
					}
				}
				return ""
			})
			testkit.Await(t, workLimit, "what is told of the killed one", func() string {
				told := s.do("events", id)
				if strings.Contains(told, id+" has stopped") {
					t.Fatalf("it is told as one that stopped by itself:\n%s", told)
				}
				// "and was not seen to stop by itself", or, where the leader missed it before its
				// guard had spoken for it, "and what it ran has ended".
				if !strings.Contains(told, id+" is gone, and ") {
					return testkit.Instead(told)
				}
				return ""
			})
			s.verify()
			t.Logf("kill -9: its %d items run elsewhere %v to %v after", len(its),
				first.Round(time.Millisecond), last.Round(time.Millisecond))
		})
	}
}

// With a TTL of 30 s nobody loses anything while Consul is away, and a session that nobody ends
// lives for 20 s more at the least, and the grace for 30 s after it.
func TestAKilledMembersItemsAreHandedOverWhenConsulIsBack(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	consul := realconsul.Start(t, realconsul.Options{})
	s := newService(t, consul.Addr())
	s.startThree("--ttl", ttl.String())
	items := s.share(60)
	id := s.follower()
	its, mark := s.of(id), s.mark()

	begin := time.Now()
	if consul.Servers[0].Freeze() != nil {
		return
	}
	s.members[id].Kill()
	await(t, begin.Add(4*time.Second))
	if consul.Servers[0].Thaw() != nil {
		return
	}
	ready(t, consul)
	testkit.Await(t, takeover+workLimit, "its items run elsewhere", func() string {
		if n := len(s.since(mark).starts()); n < len(its) {
			return fmt.Sprintf("%d of %d do", n, len(its))
		}
		return ""
	})
	if took := time.Since(begin); took > ttl+ttl/2 {
		t.Errorf("they ran elsewhere after %v: nobody handed them over\n%s", took,
			tail(s.members[id].stderr(), 5))
	}
	s.runs(items)
	if all := s.since(mark); !slices.Equal(all.starts().items(), its) ||
		!slices.Equal(all.stops().items(), its) {
		t.Errorf("%s had %d items; %d stopped and %d were started", id, len(its), len(all.stops()),
			len(all.starts()))
	}
	t.Logf("kill -9 while Consul was away for 4 s: its items run elsewhere %v after",
		time.Since(begin).Round(time.Millisecond))
}

// A member runs what it is told to, and takes nothing that it would not run: unless it is told to.
func TestAMemberWithoutACommandTakesNoItems(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	launch(t, nil, "run", "--service", s.name, "--consul", s.consul, "--id", "n0")
	s.exec = ""
	s.start("n1")
	s.importItems(10)
	testkit.Await(t, startLimit+workLimit, "n1 holds all items", func() string {
		st, has := s.now(), map[string]int{}
		for _, m := range st.Members {
			has[m.ID] = m.Items
		}
		if none, ok := has["n0"]; !ok || none != 0 || has["n1"] != 10 {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
}

// Nobody can hand over what a lost machine had: what is left of a member without a guard is all
// that Consul has.
func TestTheItemsOfAKilledMemberWithoutCommandsWaitForItsSessionAndItsLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lease  time.Duration
		notice time.Duration // the shortest time in which Consul may notice
		leader bool          // it is the leader that is killed
		flags  []string
	}{
		"of 3s":                               {3 * time.Second, time.Second, false, []string{"--lease", "3s"}},
		"as long as the ttl, without a check": {ttl, ttl, true, []string{"--check-ttl", "none"}},
	} {
		t.Run("a lease "+name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, realconsul.Shared(t).Addr())
			s.exec = ""
			for _, id := range []string{"n1", "n2"} {
				s.start(id, c.flags...)
			}
			testkit.Await(t, startLimit, "two members and a leader", func() string {
				return s.now().unlike(2, 0)
			})
			s.importItems(10)
			testkit.Await(t, workLimit, "every member has its share", func() string {
				return s.now().unlike(2, 10)
			})
			killed := s.follower()
			if c.leader {
				killed = s.now().Leader.ID
			}
			s.members[killed].Kill()
			begin := time.Now()
			took := testkit.Await(t, takeover+workLimit, "the other one has all items",
				func() string { return s.now().unlike(1, 10) })
			if took < c.notice+c.lease-c.lease/3 {
				t.Errorf("taken over after %v: the killed member might have come back until then",
					took)
			}
			t.Logf("kill -9 without a guard, a lease %s: taken over %v after", name,
				time.Since(begin).Round(time.Millisecond))
		})
	}
}

func TestAKilledMemberStartedAgainUnderItsIDResumesWithoutAMove(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	flags := append(slices.Clone(patient), unhurried...)
	s.startThree(flags...)
	items := s.share(99)

	id := s.follower()
	its, mark := s.of(id), s.mark()
	s.members[id].Kill()
	begin := time.Now()
	s.start(id, flags...)
	testkit.Await(t, workLimit, "what stopped has started again", func() string {
		if all := s.since(mark); len(all.starts()) < len(its) {
			return fmt.Sprintf("%d stops, %d starts", len(all.stops()), len(all.starts()))
		}
		return ""
	})
	took := time.Since(begin)
	s.runs(items)
	testkit.Await(t, workLimit, "every member has its share", func() string {
		return s.now().unlike(3, len(items))
	})
	all := s.since(mark)
	if !slices.Equal(all.starts().items(), its) || !slices.Equal(all.starts().members(),
		[]string{id}) || !slices.Equal(all.stops().items(), its) {
		t.Errorf("%s had %d items; then there were %d stops, and %d starts at %v", id, len(its),
			len(all.stops()), len(all.starts()), all.starts().members())
	}
	if took > soon {
		t.Errorf("it took %v, although the predecessor is known to be dead", took)
	}
	t.Logf("kill -9 and start again: %d items run again %v after the start", len(its),
		took.Round(time.Millisecond))
}

// The member hangs, its commands do not: its guard ends them with the lease. Once it goes on, it
// has lost its items and knows it.
func TestAFrozenMembersWorkEndsWithItsLeaseAndMovesOnce(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	const ttl = 2 * ttl
	s.startThree("--ttl", ttl.String(), "--lease-margin", "8s") // what a busy machine has
	items := s.share(99)

	id := s.follower()
	its, mark := s.of(id), s.mark()
	begin := time.Now()
	s.members[id].signal(syscall.SIGSTOP)
	testkit.Await(t, workLimit, "the frozen member's work ends with its lease", func() string {
		if n := len(s.of(id)); n > 0 {
			return fmt.Sprintf("%d items run", n)
		}
		return ""
	})
	stops := s.since(mark).stops()
	if took := stops[len(stops)-1].at.Sub(begin); took > ttl {
		t.Errorf("the last work ended %v after the freeze, later than any lease", took)
	}
	testkit.Await(t, 2*takeover+workLimit, "the items run elsewhere", func() string {
		if n := len(s.running()); n < len(items) {
			return fmt.Sprintf("%d run", n)
		}
		return ""
	})
	moved := s.since(mark)
	if !slices.Equal(moved.starts().items(), its) || !slices.Equal(moved.stops().items(), its) ||
		slices.Contains(moved.starts().members(), id) {
		t.Errorf("%s had %d items; %d stopped and %d were started, at %v", id, len(its),
			len(moved.stops()), len(moved.starts()), moved.starts().members())
	}
	if first := moved.starts()[0].at.Sub(begin); first < ttl+grace-renew {
		t.Errorf("the first item was taken over after %v: a frozen member is not dead, and its "+
			"guard hands nothing over",
			first)
	}
	t.Logf("frozen: the work ended after %v, ran elsewhere after %v",
		stops[len(stops)-1].at.Sub(begin).Round(time.Millisecond),
		moved[len(moved)-1].at.Sub(begin).Round(time.Millisecond))
	s.members[id].signal(syscall.SIGCONT)
	testkit.Await(t, workLimit, "three members with their shares", func() string {
		return s.now().unlike(3, len(items))
	})
	s.runs(items)
}

// As after a power cut, or by an impatient operator: everybody is killed, and comes back under the
// old ids.
func TestAServiceWhoseMembersAreAllKilledResumesWithoutAMove(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	s.startThree(patient...)
	items := s.share(60)

	mark, owners := s.mark(), s.ownerOf()
	for _, p := range s.members {
		p.Kill()
	}
	begin := time.Now()
	for _, id := range []string{"n3", "n1", "n2"} {
		s.start(id, patient...)
	}
	testkit.Await(t, workLimit, "what stopped has started again", func() string {
		if all := s.since(mark); len(all.starts()) < len(items) {
			return fmt.Sprintf("%d stops, %d starts", len(all.stops()), len(all.starts()))
		}
		return ""
	})
	took := time.Since(begin)
	testkit.Await(t, workLimit, "every member has its share", func() string {
		return s.now().unlike(3, len(items))
	})
	s.runs(items)
	if !maps.Equal(owners, s.ownerOf()) || len(s.since(mark).starts()) != len(items) {
		t.Errorf("items moved: %d starts for %d items", len(s.since(mark).starts()), len(items))
	}
	t.Logf("all killed and started again: all work runs %v after the start",
		took.Round(time.Millisecond))
}
