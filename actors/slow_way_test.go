package actors_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Each answer comes in time for its request, and the renewal, the read that confirms it and another
// try come in time for the lease.
func TestAConsulThatIsSlowWithEachAnswerCostsNothing(t *testing.T) {
	for i, most := range []time.Duration{time.Second, 1500 * time.Millisecond,
		1900 * time.Millisecond, 2 * time.Second} {
		for _, varies := range []bool{false, true} {
			for phase := range 3 {
				if raceDetector && phase != i%3 {
					continue
				}
				t.Run(fmt.Sprintf("%v varies %v phase %d", most, varies, phase),
					func(t *testing.T) {
						run(t, func(c *cluster) {
							way := transport.NewWire(c.consul.RoundTripper())
							c.way = way
							c.addWork(c.items(6)...)
							m := c.start("n1")
							c.await("all work", time.Minute, c.balanced(6))
							cfg := m.c.Settings()
							time.Sleep(time.Duration(phase) * cfg.Renew / 3)
							takes := func() time.Duration {
								if varies {
									return rand.N(most)
								}
								return most
							}
							way.Slow(takes)
							first := m.c.Session().Get().ID
							for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(
								20 * time.Millisecond) {
								if s := m.c.Session().Get(); s.ID != first ||
									!s.Holds(time.Now(), cfg.LeaseMargin) {
									t.Fatalf(
										"after %v the lease of session %s (it was %s) has %v left",
										time.Since(begin), s.ID, first, s.Lease.Left(time.Now()))
								}
							}
							if n := c.totalStarts(); n != 6 {
								t.Errorf("%d starts of 6 items", n)
							}
							way.Via(c.consul.RoundTripper())
						})
					})
			}
		}
	}
}

// However small the margin, and whenever the lease was looked at: nobody works beyond its end.
func TestWorkStopsWithinItsLeaseAlsoWithASmallMargin(t *testing.T) {
	for takes := 900 * time.Millisecond; takes < time.Second; takes += 4 * time.Millisecond {
		run(t, func(c *cluster) {
			way := transport.NewWire(c.consul.RoundTripper())
			c.way = way
			c.addWork(c.items(4)...)
			m := c.start("n1", func(cfg *actors.Config) { cfg.LeaseMargin = time.Millisecond })
			c.await("all work", time.Minute, c.balanced(4))
			// for the renewal, and the read that confirms it
			half := func() time.Duration { return takes / 2 }
			way.Slow(half)
			time.Sleep(10 * time.Second)
			m.net.Cut(errors.New("connection refused"))
			lease := m.c.Session().Get().Lease
			time.Sleep(lease.Left(time.Now()))
			if n := c.loads()["n1"]; n != 0 {
				t.Errorf("renewals take %v: %d items are worked on at the end of the lease", takes,
					n)
			}
			m.net.Cut(nil)
		})
	}
}
