package actors_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Nothing is done without a session: however long the check lasts, it is not waited for where the
// agent does not take it.
func TestALongCheckIsNotWaitedForWhereThereIsNone(t *testing.T) {
	for name, answer := range transport.TakesNoCheck {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.way = agentOnly(c.consul.RoundTripper(), "/v1/agent/", answer)
				c.addWork(c.items(3)...)
				c.start("n1", func(cfg *actors.Config) { cfg.TTL = time.Hour })
				c.await("all of it runs", 15*time.Second, c.balanced(3))
			})
		})
	}
}

// A member with a long check that was cut off for longer than it lasts has its next session bound
// to it, like any other.
func TestALongCheckIsThereAgainAfterAnOutage(t *testing.T) {
	for n := range 20 { // at any moment of what is tried meanwhile
		if raceDetector && n%5 != 0 {
			continue
		}
		away := 42*time.Minute + time.Duration(n*n)*710*time.Millisecond
		t.Run(away.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				c.addWork(c.items(3)...)
				m := c.start("n1", func(cfg *actors.Config) { cfg.TTL = time.Hour })
				c.await("all of it runs", 15*time.Second, c.balanced(3))
				m.net.Cut(errors.New("connection refused"))
				time.Sleep(away)
				m.net.Cut(nil)
				c.await("another session", 20*time.Second, func() bool {
					s := m.c.Session().Get()
					return s.ID != "" && s.Count == 2
				})
				if s := m.c.Session().Get(); s.Check == "" {
					t.Errorf("it is bound to no check: %+v", s)
				}
			})
		})
	}
}
