package actors_test

import (
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/supervisor"
)

// A member is told to stop at the moment in which one of its actors fails: it
// stops in time all the same, names the actor if that is one that hangs, and what it
// held is taken over: at once, or when its session and the grace are over.
func TestAStopInTheMiddleOfAFailureEndsInTime(t *testing.T) {
	eachFailure(t, atMessage, 2, []failure{panics, errs, exits, hangs}, stopsInTime)
}

func TestAStopInTheMiddleOfARequestThatFailsEndsInTime(t *testing.T) {
	eachFailure(t, afterRequest, 2, []failure{panics, exits, hangs}, stopsInTime)
}

func stopsInTime(t *testing.T, s *saboteur) {
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		s.stops = true
		n1 := c.sabotaged(s)
		defer s.free()
		total := c.episode()
		if !s.didFire() {
			return
		}
		// Every other actor needs a second at most; one that hangs has the worker manager's
		// stop timeout and six more, or six.
		bound := 8 * time.Second
		if s.how == hangs {
			bound += 6 * time.Second
			if s.actor == "worker-manager" {
				bound += 10 * time.Second
			}
		}
		<-n1.done
		if took := s.ended.Sub(s.fired); took > bound {
			t.Errorf("Run returned %v after it was told to stop, want %v at most", took, bound)
		}
		stuck, ok := errors.AsType[*supervisor.StuckError](n1.err)
		switch {
		case s.how == hangs && !ok:
			t.Errorf("Run returned %v: want a StuckError that names %s", n1.err, s.actor)
		case s.how == hangs:
			if len(stuck.Children) != 1 || path.Base(stuck.Children[0].Path) != s.actor ||
				!strings.Contains(stuck.Children[0].Stack, "saboteur).strike") {
				t.Errorf("the StuckError names %v, want %s alone with its stack", stuck, s.actor)
			}
		case n1.err != nil:
			t.Errorf("Run returned %v", n1.err)
		}
		if n1.c.Leadership().Get().Role == facts.Leading {
			t.Errorf("n1 has stopped, and says that it leads")
		}
		for item, at := range c.owners() {
			if at == "n1" {
				t.Errorf("n1 has stopped, and still works on %s", item)
			}
		}
		delete(c.members, "n1")
		// 2 x TTL for the session, the grace, lock-delay, soaks.
		c.await("all at n2", 40*time.Second, c.balanced(total))
		// What hung wakes up long after: what it does then must hurt nobody.
		s.free()
		time.Sleep(40 * time.Second)
		if !c.balanced(total)() {
			t.Errorf("in the end: %v", c.loads())
		}
		if sessions, _, err := c.client.Session().List(nil); err != nil || len(sessions) != 1 {
			t.Errorf("%d sessions in the end, %v: want n2's alone", len(sessions), err)
		}
	})
}
