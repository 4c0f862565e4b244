package supervisor_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/supervisor"
)

func TestBackoffsKeepTheirBounds(t *testing.T) {
	c := supervisor.Constant(time.Second)()
	e := supervisor.Exponential(time.Second, 5*time.Second)()
	for range 2 {
		c.Reset()
		e.Reset()
		for i, mean := range []time.Duration{1, 2, 4, 5, 5, 5, 5} {
			if d := c.NextBackOff(); d != time.Second {
				t.Errorf("constant, wait %d: %v", i, d)
			}
			if d, m := e.NextBackOff(), mean*time.Second; d < m/2 || d > m*3/2 {
				t.Errorf("exponential, wait %d: %v, want %v and half of that more or less", i, d, m)
			}
		}
	}
}
