package actors_test

import (
	"errors"
	"strings"
	"testing"

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
