package actors_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// deniedOn is a way on which such requests are denied while now says so.
func deniedOn(direct http.RoundTripper, now *atomic.Bool,
	which func(*http.Request) bool) http.RoundTripper {
	return transport.When(direct, func(r *http.Request) bool { return now.Load() && which(r) },
		transport.Always(403, "Permission denied"))
}

// An order that Consul refuses for itself is skipped for 30 s and named: all others go on.
func TestAnOrderThatConsulRefusesIsSkippedAndShown(t *testing.T) {
	for name, how := range map[string]transport.Func{
		"denied":  transport.Always(http.StatusForbidden, "Permission denied"),
		"invalid": transport.Always(http.StatusBadRequest, "blocked by policy"),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var allowed atomic.Bool
				refused := transport.TxnWith("assignments/", "/poison")
				c.way = transport.When(c.consul.RoundTripper(), func(r *http.Request) bool {
					return !allowed.Load() && refused(r)
				}, how)
				items := c.items(20)
				c.addWork(append(items, "poison")...)
				c.start("n1")
				c.start("n2")
				c.await("all others run", 15*time.Second, c.runs(items))
				time.Sleep(10 * time.Second)
				s, err := c.operator().Status(c.t.Context())
				c.must(err)
				if len(s.Refused) != 1 || !strings.Contains(s.Problem(), "Consul refuses") {
					t.Errorf("refused are %v, wrong is %q", s.Refused, s.Problem())
				}
				allowed.Store(true)
				c.await("it runs", 40*time.Second, c.runs([]string{"poison"}))
				time.Sleep(5 * time.Second)
				if s, err = c.operator().Status(c.t.Context()); err != nil || len(s.Refused) > 0 {
					t.Errorf("refused are still %v, %v", s.Refused, err)
				}
			})
		})
	}
}

// A leader whose token lacks a right that leading takes resigns, and another member leads.
func TestALeaderThatMayNotWriteWhatALeaderWritesMakesWay(t *testing.T) {
	for _, kind := range []string{"demo/events/", "demo/assignments/"} {
		t.Run(strings.Trim(kind, "/"), func(t *testing.T) {
			run(t, func(c *cluster) {
				var denied atomic.Bool
				c.way = deniedOn(c.consul.RoundTripper(), &denied, func(r *http.Request) bool {
					return r.Method == http.MethodPut && holding(kind)(r)
				})
				c.start("n1")
				c.await("n1 leads", time.Minute, func() bool { return c.leader() == "n1" })
				c.way = nil
				c.start("n2")
				c.addWork(c.items(4)...)
				c.await("all run", time.Minute, c.balanced(4))
				denied.Store(true)
				c.addWork("late-1", "late-2")
				c.await("n2 leads", time.Minute, func() bool { return c.leader() == "n2" })
				c.await("late ones run", time.Minute, c.runs([]string{"late-1", "late-2"}))
				time.Sleep(2 * time.Minute)
				if c.leader() != "n2" {
					c.t.Errorf("%q leads", c.leader())
				}
			})
		})
	}
}

// A token that Consul does not know says nothing of rights: another one comes with the file that it
// is in. No leader makes way for that, and no order is skipped.
func TestATokenThatIsUnknownForAMomentMakesNoLeaderUnfit(t *testing.T) {
	run(t, func(c *cluster) {
		var unknown atomic.Bool
		c.way = transport.When(c.consul.RoundTripper(), func(r *http.Request) bool {
			return unknown.Load() && r.Method == http.MethodPut && holding("demo/assignments/")(r)
		}, transport.Always(http.StatusForbidden, "ACL not found"))
		c.start("n1")
		c.await("n1 leads", time.Minute, func() bool { return c.leader() == "n1" })
		c.way = nil
		c.start("n2")
		c.addWork(c.items(4)...)
		c.await("all run", time.Minute, c.balanced(4))
		unknown.Store(true)
		c.addWork("late-1", "late-2")
		time.Sleep(10 * time.Second)
		unknown.Store(false)
		c.await("late ones run", 20*time.Second, c.runs([]string{"late-1", "late-2"}))
		if c.leader() != "n1" {
			c.t.Errorf("%q leads", c.leader())
		}
	})
}
