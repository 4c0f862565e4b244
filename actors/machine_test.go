package actors_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
)

// machines runs n1, n2 and n3, each with a Consul agent of its own beside it, until n items are
// shared out.
func machines(c *cluster, n int, options ...option) map[string]*devconsul.Agent {
	c.t.Helper()
	agents := map[string]*devconsul.Agent{}
	c.addWork(c.items(n)...)
	for _, id := range []string{"n1", "n2", "n3"} {
		agents[id] = c.consul.AddAgent("host-" + id)
		c.way = agents[id].RoundTripper()
		c.start(id, options...)
	}
	c.way = nil
	c.await("shared out", 30*time.Second, c.balanced(n))
	c.oneSession()
	return agents
}

// A machine that is lost with its agent is noticed by the gossip of Consul's agents, and its items
// are taken over within the bound that is printed for that.
func TestALostMachineIsTakenOverWithinItsBound(t *testing.T) {
	for name, set := range map[string]option{
		"defaults":       func(*actors.Config) {},
		"a lease of 3 s": func(cfg *actors.Config) { cfg.Lease = 3 * time.Second },
		"a ttl of 3 s":   func(cfg *actors.Config) { cfg.TTL = 3 * time.Second },
		"the shortest lease": func(cfg *actors.Config) {
			cfg.Lease, cfg.CheckTTL = actors.MinLease, actors.MinCheckTTL
		},
	} {
		for _, leads := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				run(t, func(c *cluster) {
					agents := machines(c, 9, set)
					time.Sleep(20 * time.Second)
					victim := c.follower()
					settings := c.members[victim].c.Settings()
					bound := settings.Bounds().TakeOverMachine.Total()
					if leads {
						victim = c.leader()
						bound += settings.Bounds().OfLeader.Total()
					}
					agents[victim].Kill()
					c.kill(victim)
					took := c.await("taken over", bound, c.balanced(9))
					t.Logf("taken over after %v", took)
					detect := min(7*time.Second, 2*settings.TTL-settings.Renew)
					if took < detect+settings.Lease {
						t.Errorf("taken over after %v: before its lease was over", took)
					}
					c.awaitLeader(10 * time.Second)
					c.oneSession()
				})
			})
		}
	}
}

// An agent that is killed and back within the check's TTL costs nobody a session; one that stays
// away, or leaves, costs those of its own node, and their work goes on elsewhere until it is back.
func TestAnAgentsEndCostsOnlyItsOwnNodeAndOnlyWhenItStaysAway(t *testing.T) {
	run(t, func(c *cluster) {
		agents := machines(c, 9)
		for _, agent := range agents {
			agent.Kill()
			time.Sleep(4 * time.Second)
			agent.Start()
			time.Sleep(20 * time.Second)
		}
		c.oneSession()
		for round, end := range []func(*devconsul.Agent){(*devconsul.Agent).Kill,
			(*devconsul.Agent).Leave} {
			victim := c.follower()
			end(agents[victim])
			c.await("others have its items", time.Minute, func() bool {
				return sum(c.loads()) == 9 && c.loads()[victim] == 0
			})
			agents[victim].Start()
			c.await("shared out again", time.Minute, c.balanced(9))
			if s := c.members[victim].c.Session().Get(); s.Check == "" {
				t.Errorf("round %d: its new session is bound to no check", round)
			}
			for id, m := range c.members {
				if s := m.c.Session().Get(); id != victim && s.Check == "" {
					t.Errorf("round %d: the session of %s: %+v", round, id, s)
				}
			}
			time.Sleep(11 * time.Minute) // a process that has lost two in ten is bound to no check
		}
	})
}

// An agent that leaves goes on answering for some seconds, and takes registrations: what is opened
// through it then is noticed by nobody when it has gone.
func TestAMemberDoesNotComeBackThroughAnAgentThatLeaves(t *testing.T) {
	for name, set := range map[string]option{
		"defaults":       func(*actors.Config) {},
		"a lease of 6 s": func(cfg *actors.Config) { cfg.Lease = 6 * time.Second },
		"a lease of 3 s": func(cfg *actors.Config) {
			cfg.Lease, cfg.CheckTTL = 3*time.Second, time.Second
		},
	} {
		for _, leads := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				run(t, func(c *cluster) {
					agents := machines(c, 9, set)
					time.Sleep(20 * time.Second)
					victim := c.follower()
					f := c.members[victim].c.Settings().Bounds()
					bound := f.TakeOverLeft.Total()
					if leads {
						victim = c.leader()
						bound += f.OfLeader.Total()
					}
					agents[victim].LeaveAfter(5 * time.Second)
					begin := time.Now()
					c.await("its work has stopped", 5*time.Second, func() bool {
						return c.loads()[victim] == 0
					})
					took := c.await("others have its items", bound, func() bool {
						return sum(c.loads()) == 9 && c.loads()[victim] == 0
					})
					t.Logf("taken over %v after it had stopped, %v in all", took,
						time.Since(begin))
					time.Sleep(10 * time.Second)
					if s := c.members[victim].c.Session().Get(); s.Count != 1 {
						c.t.Errorf("its session number %d was opened through that agent", s.Count)
					}
					time.Sleep(time.Minute)
					agents[victim].Start()
					c.await("it has its share again", time.Minute, c.balanced(9))
				})
			})
		}
	}
}
