//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// outages are the two ways for a server to be away: frozen, it accepts connections and does not
// answer; stopped, it refuses them.
var outages = []struct {
	name       string
	begin, end func(*realconsul.Server) error
}{
	{"frozen", (*realconsul.Server).Freeze, (*realconsul.Server).Thaw},
	{"stopped", (*realconsul.Server).Stop, (*realconsul.Server).Start},
}

// A TTL of 60 s and not of 10: a member that renewed T/3 before the outage began has T - T/3 - T/10
// - T/20 until its work is told to stop, 5.1 s with the default. That is enough for 5 s, but a
// Consul that starts on a busy machine is away for longer (21 s seen).
func TestNobodyLosesWorkOrLeadershipWhileConsulIsAwayForFiveSeconds(t *testing.T) {
	t.Parallel()
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			consul := realconsul.Start(t, realconsul.Options{})
			s := newService(t, consul.Addr())
			const ttl = 60 * time.Second
			s.startThree("--ttl", ttl.String())
			items := s.share(60)
			before, mark := s.now(), s.mark()

			begin := time.Now()
			if o.begin(consul.Servers[0]) != nil {
				return
			}
			await(t, begin.Add(5*time.Second))
			if o.end(consul.Servers[0]) != nil {
				return
			}
			ready(t, consul)
			t.Logf("Consul was away for %v", time.Since(begin).Round(time.Millisecond))
			// Long enough for every lease of before to have ended, had it not been renewed.
			await(t, begin.Add(ttl))
			if story := s.since(mark); len(story) > 0 {
				t.Errorf("work stopped or started %d times: %+v ...", len(story), story[0])
			}
			s.runs(items)
			after := s.now()
			if why := after.unlike(3, len(items)); why != "" {
				t.Error(why)
			}
			if before.Leader.ID != after.Leader.ID {
				t.Errorf("%s led, now %s does", before.Leader.ID, after.Leader.ID)
			}
			for id, p := range s.members {
				log := p.stderr()
				if strings.Contains(log, "lost-leadership") ||
					strings.Contains(log, "session-lost") {
					t.Errorf("%s lost its session or its leadership", id)
				}
				// One that is frozen for less than a renewal may take is only slow: nothing has
				// failed.
				if away, back := strings.Contains(log, "msg=consul-unreachable"),
					strings.Contains(log, "msg=reconnected-to-consul"); away != back ||
					(o.name == "stopped" && !back) {
					t.Errorf("%s says that Consul is away: %v, and that it is back: %v", id, away,
						back)
				}
			}
		})
	}
}

// 45 s stand for the minute or the hour that an outage may take: all that a lease depends on has
// ended after 20 s, and the sessions after 40 s, if Consul lets them: one that was stopped grants
// them their time again when it starts.
func TestAllWorkStopsBeforeItsLeaseEndsWhenConsulIsAwayForLongAndComesBackByItself(t *testing.T) {
	t.Parallel()
	const ttl, outage = 20 * time.Second, 45 * time.Second
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			consul := realconsul.Start(t, realconsul.Options{})
			s := newService(t, consul.Addr())
			s.startThree("--ttl", ttl.String(), "--lease-margin", "8s") // what a busy machine has
			items := s.share(60)
			mark, owners := s.mark(), s.ownerOf()

			begin := time.Now()
			if o.begin(consul.Servers[0]) != nil {
				return
			}
			// No renewal has been answered since, so no lease is longer than this.
			end := time.Now().Add(ttl)
			testkit.Await(t, workLimit, "all work has stopped", func() string {
				if n := len(s.running()); n > 0 {
					return fmt.Sprintf("%d items run", n)
				}
				return ""
			})
			story := s.since(mark)
			first, last := story[0].at, story[len(story)-1].at
			if last.After(end) {
				t.Errorf("the last work stopped %v after the latest end of a lease", last.Sub(end))
			}
			t.Logf("work stopped %v to %v after Consul went away",
				first.Sub(begin).Round(time.Millisecond), last.Sub(begin).Round(time.Millisecond))
			await(t, begin.Add(outage))
			if n := len(s.since(mark).starts()); n > 0 {
				t.Errorf("%d items were started without Consul", n)
			}
			if o.end(consul.Servers[0]) != nil {
				return
			}
			ready(t, consul)
			back := time.Now()
			s.runs(items)
			t.Logf("all work runs again %v after Consul was back",
				time.Since(back).Round(time.Millisecond))
			testkit.Await(t, workLimit, "every member has its share", func() string {
				return s.now().unlike(3, len(items))
			})
			// A Consul that stood still finds that the sessions are over: items may move, and each
			// starts once. One that started again lets them live: no item moves, either. But an
			// agent that comes back after more than a check's TTL takes the check for critical until
			// it is reported. Its first word to the servers may be that: then they end a session
			// that was valid, and its items move, and some that give way for them.
			for id, p := range s.members {
				if o.name == "stopped" && strings.Contains(p.stderr(), "msg=session-lost") {
					t.Logf("the agent ended the session of %s", id)
					return
				}
			}
			if now := s.ownerOf(); o.name == "stopped" && !maps.Equal(owners, now) {
				t.Error("items moved, although no session had ended")
			}
			starts := map[string]int{}
			for _, item := range s.since(mark).starts().items() {
				starts[item]++
			}
			for _, item := range items {
				if n := starts[item]; n != 1 {
					t.Errorf("%d starts of %s at %s, want 1", n, item, owners[item])
				}
			}
		})
	}
}
