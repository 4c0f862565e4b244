package actors_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// What nobody leads without may be kept from one leader alone: by its token, or by what stands
// between its host and Consul. Another member leads in its place then, and the lease that the one
// renews keeps the service from nobody for long.
func TestALeaderThatAloneCannotPlanMakesWayForAnother(t *testing.T) {
	for _, text := range []string{"sequence/leader/0", "demo/members/?", "demo/acks/?",
		"demo/assignments/?", "demo/workload/?", "demo/control/?", `"service/demo/control/"`,
		`"cas","Key":"service/demo/leader"`} {
		for _, answer := range []string{"403", "500", "lost", "silent"} {
			t.Run(answer+" "+strings.ReplaceAll(text, "/", "-"), func(t *testing.T) {
				run(t, func(c *cluster) {
					sick, way := c.sickWay(text, answer)
					c.way = way
					items := c.items(9)
					c.addWork(items...)
					c.start("n1")
					c.await("n1 leads", time.Minute, func() bool { return c.leader() == "n1" })
					c.way = nil
					c.start("n2")
					c.start("n3")
					c.await("all run", time.Minute, c.balanced(9))
					sick.Store(true)
					switch text { // what makes the leader ask for it
					case "demo/control/?":
						c.put("control/drain/nobody", "")
					case "demo/assignments/?", `"service/demo/control/"`,
						`"cas","Key":"service/demo/leader"`:
						c.put("leader", "n1 ") // a new epoch
					}
					limit := 75 * time.Second // until it makes way, and a grace of n3's
					if answer == "silent" {   // a long poll, that dies in silence
						limit += 67 * time.Second
					}
					end := time.Now().Add(limit)
					c.kill("n3")
					c.addWork("late")
					time.Sleep(20 * time.Second)
					c.addWork("later")
					if _, ok := testkit.Virtual(time.Until(end), 50*time.Millisecond,
						c.runs(append(items, "late", "later"))); !ok {
						t.Errorf("%q leads, and not all runs after %v", c.leader(), limit)
					}
					if sick.hits.Load() == 0 {
						t.Error("no request was kept from it")
					}
				})
			})
		}
	}
}

// Its host's Lead ends before another's begins, and may take its time.
func TestALeaderThatAloneCannotPlanMakesWayWhenItsLeadHasEnded(t *testing.T) {
	run(t, func(c *cluster) {
		sick, way := c.sickWay("sequence/leader/0", "403")
		c.way = way
		const takes = 25 * time.Second
		c.addWork(c.items(4)...)
		c.start("n1", resignsIn(takes), func(cfg *actors.Config) {
			cfg.StopTimeout = 30 * time.Second
		})
		c.await("n1 leads", time.Minute, func() bool { return c.leader() == "n1" })
		c.way = nil
		c.start("n2")
		c.await("all run", time.Minute, c.balanced(4))
		sick.Store(true)
		c.addWork("late")
		c.await("the late one", time.Minute+takes+2*time.Second, c.runs([]string{"late"}))
		if c.leader() != "n2" || sick.hits.Load() == 0 {
			t.Errorf("%q leads, %d requests were kept from n1", c.leader(), sick.hits.Load())
		}
	})
}

// sickness is whether requests are kept from a member, and how many were.
type sickness struct {
	atomic.Bool
	hits atomic.Int64
}

// sickWay is a way to Consul on which requests that hold the text have that answer once it is sick.
func (c *cluster) sickWay(text, answer string) (sick *sickness, way http.RoundTripper) {
	sick = new(sickness)
	direct, hit := c.consul.RoundTripper(), holding("", text)
	return sick, transport.When(direct, func(r *http.Request) bool {
		if !sick.Load() || !hit(r) {
			return false
		}
		sick.hits.Add(1)
		return true
	}, map[string]transport.Func{
		"403":  transport.Always(403, "Permission denied"),
		"500":  transport.Always(500, "out of order"),
		"lost": transport.Lose(direct), "silent": transport.Hang,
	}[answer])
}

// Where nobody can plan the leadership does not go round: each gives it up once in ten minutes.
func TestWhereNobodyCanPlanTheLeadershipDoesNotGoRound(t *testing.T) {
	run(t, func(c *cluster) {
		sick, way := c.sickWay("sequence/leader/0", "403")
		c.way = way
		c.addWork(c.items(4)...)
		for _, id := range []string{"n1", "n2"} {
			c.start(id)
		}
		c.await("all run", time.Minute, c.balanced(4))
		sick.Store(true)
		c.addWork("late")
		terms, last := 0, c.leader()
		for end := time.Now().Add(time.Hour); time.Now().Before(end); time.Sleep(time.Second) {
			if now := c.leader(); now != "" && now != last {
				terms, last = terms+1, now
			}
		}
		if terms < 2 || terms > 14 {
			t.Errorf("the leadership changed hands %d times within an hour", terms)
		}
		sick.Store(false)
		c.await("the late one", 20*time.Second, c.runs([]string{"late"}))
	})
}

// A Consul that is away for all costs nobody the leadership, however long the lease bears it.
func TestAnOutageWithinALongLeaseIsNoReasonToMakeWay(t *testing.T) {
	for _, away := range []time.Duration{50 * time.Second, 3 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				sick, way := c.sickWay("", "500")
				c.way = way
				long := func(cfg *actors.Config) {
					cfg.TTL, cfg.CheckTTL = 10*time.Minute, actors.NoCheck
				}
				c.addWork(c.items(4)...)
				c.start("n1", long)
				c.start("n2", long)
				c.await("all run", time.Minute, c.balanced(4))
				first, term := c.leader(), c.term()
				sick.Store(true)
				c.addWork("late")
				time.Sleep(away)
				sick.Store(false)
				c.await("the late one", 20*time.Second, c.runs([]string{"late"}))
				time.Sleep(2 * time.Minute)
				if c.leader() != first || c.term().After != term.After {
					t.Errorf("%s led, and now %q", first, c.leader())
				}
			})
		})
	}
}
