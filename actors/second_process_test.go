package actors_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

func TestASecondProcessWithTheSameIdRefuses(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		first := c.members["n1"]
		second := c.start("n1", func(cfg *actors.Config) {
			cfg.Liveness = func(actors.Process) actors.Liveness { return actors.Alive }
		})
		<-second.done
		c.members["n1"] = first
		if !errors.Is(second.err, actors.ErrIDTaken) || !strings.Contains(second.err.Error(),
			"n1.test") {
			t.Errorf("the second ended with %v, want ErrIDTaken naming the first's host",
				second.err)
		}
		if n := c.totalStarts(); n != 9 {
			t.Errorf("%d starts of 9 items: the second disturbed the first", n)
		}
	})
}

func TestASecondProcessOnAnotherHostRefusesInTheEnd(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		first := c.members["n1"]
		second := c.start("n1")
		<-second.done
		c.members["n1"] = first
		if !errors.Is(second.err, actors.ErrIDTaken) {
			t.Errorf("the second ended with %v, want ErrIDTaken", second.err)
		}
	})
}

// sessions counts those that there are.
func (c *cluster) sessions() int {
	sessions, _, err := c.client.Session().List(nil)
	c.must(err)
	return len(sessions)
}

// It asks by a session of its own whether the first is kept alive.
func TestASecondProcessThatIsStoppedWhileItWaitsLeavesNothing(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		first := c.members["n1"]
		c.start("n1")
		c.await("a session that asks", time.Minute, func() bool { return c.sessions() == 5 })
		c.stop("n1")
		c.members["n1"] = first
		if n := c.sessions(); n != 3 {
			t.Errorf("%d sessions of 3 members", n)
		}
	})
}

// So it does when the first has gone at that moment.
func TestASecondProcessThatIsStoppedSoonAfterItsWaitLeavesNothing(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		first := c.members["n1"]
		second := c.start("n1")
		c.await("a session that asks", time.Minute, func() bool { return c.sessions() == 5 })
		c.members["n1"] = first
		c.stop("n1")
		c.members["n1"] = second
		c.await("it is registered", 10*time.Second, func() bool {
			return second.c.Membership().Get().In(second.c.Session().Get().ID)
		})
		c.stop("n1")
		if n := c.sessions(); n != 2 {
			t.Errorf("%d sessions of 2 members", n)
		}
	})
}
