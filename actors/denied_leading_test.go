package actors_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// writesTo picks transactions that write to a key that holds text; to read there is another right.
func writesTo(text string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		var ops []copiedOp
		if json.Unmarshal([]byte(transport.Txn(r)), &ops) != nil {
			return false
		}
		for _, op := range ops {
			reads := strings.HasPrefix(op.KV.Verb, "check-") || strings.HasPrefix(op.KV.Verb, "get")
			if !reads && strings.Contains(op.KV.Key, text) {
				return true
			}
		}
		return false
	}
}

// deniedOn is a way on which such requests are denied while now says so.
func deniedOn(direct http.RoundTripper, now *atomic.Bool,
	which func(*http.Request) bool) http.RoundTripper {
	return transport.When(direct, func(r *http.Request) bool { return now.Load() && which(r) },
		transport.Always(403, "Permission denied"))
}

// A leader that may write no assignments makes way for one that may.
func TestALeaderThatMayWriteNoAssignmentsMakesWay(t *testing.T) {
	for name, x := range map[string]struct {
		do    func(*cluster)
		limit time.Duration
		items int
	}{
		"work is added": {func(c *cluster) { c.addWork("late-1", "late-2", "late-3", "late-4") },
			time.Minute, 13},
		"a member is lost": {func(c *cluster) { c.kill("n3") }, 33*time.Second + time.Minute, 9},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var now atomic.Bool
				c.way = deniedOn(c.consul.RoundTripper(), &now, writesTo("demo/assignments/"))
				c.start("n1")
				c.await("n1 leads", time.Minute, func() bool { return c.leader() == "n1" })
				c.way = nil
				c.start("n2")
				c.start("n3")
				c.addWork(c.items(9)...)
				c.await("all run", time.Minute, c.balanced(9))
				now.Store(true)
				x.do(c)
				total := func() bool {
					n := 0
					for _, load := range c.loads() {
						n += load
					}
					return n == x.items
				}
				time.Sleep(time.Second)
				c.await("all run", x.limit, total)
				if leads := c.leader(); leads == "n1" {
					t.Errorf("%s leads", leads)
				}
			})
		})
	}
}

// What is denied to all leaders moves no leadership where it is of one item, of one member, or of
// other keys than assignments; nor does what is denied for a moment, also where nobody orders it
// any more.
func TestOtherDenialsOfALeadersWritesMoveNoLeadership(t *testing.T) {
	late := []string{"late-1", "late-2", "late-3", "late-4"}
	add := func(c *cluster) { c.addWork(late...) }
	kill := func(c *cluster) { c.kill("n3") }
	nothing := func(*cluster) {}
	const all = "demo/assignments/"
	for name, x := range map[string]struct {
		of      string
		do      func(*cluster)
		forGood bool
		then    func(*cluster) // when it is allowed again
	}{
		"one item":               {"/late-1", add, true, nothing},
		"a member":               {"demo/assignments/n3/", add, true, nothing},
		"summaries":              {"demo/states/", kill, true, nothing},
		"a moment":               {all, add, false, nothing},
		"a moment, work removed": {all, add, false, func(c *cluster) { c.removeWork(late...) }},
		"a moment, then frozen":  {all, add, false, func(c *cluster) { c.put("control/freeze", "") }},
		"a moment of a drain": {all, func(c *cluster) {
			c.put("control/drain/n2", "")
			c.put("control/drain/n3", "")
		}, false, func(c *cluster) {
			c.delete("control/drain/n2")
			c.delete("control/drain/n3")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var now atomic.Bool
				c.way = deniedOn(c.consul.RoundTripper(), &now, writesTo(x.of))
				c.start("n1")
				c.await("n1 leads", time.Minute, func() bool { return c.leader() == "n1" })
				c.start("n2")
				c.start("n3")
				c.addWork(c.items(9)...)
				c.await("all run", time.Minute, c.balanced(9))
				term := c.members["n1"].c.Leadership().Get().Term
				now.Store(true)
				x.do(c)
				time.Sleep(5 * time.Second)
				now.Store(x.forGood)
				x.then(c)
				time.Sleep(20 * time.Minute)
				if l := c.members["n1"].c.Leadership().Get(); l.Term != term {
					t.Errorf("%s leads, and n1 is %v", c.leader(), l)
				}
			})
		})
	}
}

// Nor does a missing right to note where work has failed.
func TestDeniedNotesOfFailingWorkMoveNoLeadership(t *testing.T) {
	logged(t, func(w watched) {
		var tries atomic.Int64
		sick := w.failing(&tries, func(_, item string) bool { return item[:3] == "bad" })
		w.way = transport.When(w.consul.RoundTripper(), writesTo("demo/quarantine/"),
			transport.Always(403, "Permission denied"))
		w.start("n1", limited(2), sick)
		w.await("n1 leads", time.Minute, func() bool { return w.leader() == "n1" })
		w.start("n2", limited(2), sick)
		w.start("n3", limited(2), sick)
		w.addWork(w.items(6)...)
		w.await("all run", time.Minute, w.balanced(6))
		term := w.members["n1"].c.Leadership().Get().Term
		w.addWork("bad-1", "bad-2", "bad-3")
		time.Sleep(10 * time.Minute)
		if l := w.members["n1"].c.Leadership().Get(); l.Term != term {
			t.Errorf("%s leads, and n1 is %v", w.leader(), l)
		}
	})
}
