package actors_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// docs/guarantees.md names these numbers: how many answers of Consul's a take-over waits for, one
// after the other. Its bounds have a second for all of them.
func TestATakeOverWaitsForSoManyAnswersOfConsul(t *testing.T) {
	for _, who := range []struct {
		name    string
		lost    func(c *cluster) string
		answers time.Duration
	}{{"a member", (*cluster).follower, 5}, {"the leader", (*cluster).leader, 15}} {
		t.Run(who.name, func(t *testing.T) {
			at := func(answer time.Duration) (took time.Duration) {
				run(t, func(c *cluster) {
					way := transport.NewWire(c.consul.RoundTripper())
					c.way = way
					for _, id := range []string{"n1", "n2", "n3"} {
						c.start(id)
						c.awaitLead(10 * time.Second)
					}
					c.addWork(c.items(30)...)
					c.await("all work", time.Minute, c.balanced(30))
					takes := func() time.Duration { return answer }
					way.Slow(takes)
					time.Sleep(20 * time.Second)
					lost := who.lost(c)
					c.kill(lost)
					took = c.await("all work elsewhere", 2*time.Minute, func() bool {
						loads := c.loads()
						delete(loads, lost)
						n := 0
						for _, items := range loads {
							n += items
						}
						return n == 30
					})
					way.Via(c.consul.RoundTripper())
				})
				return took
			}
			// What comes at what moment of a poll or a report moves with the answers, too.
			const phases = 600 * time.Millisecond
			base := at(0)
			for _, answer := range []time.Duration{60, 200, 400, 800} {
				answer *= time.Millisecond
				took := at(answer)
				if most := base + who.answers*answer + phases; took > most {
					t.Errorf("answers that take %v: %v, want %v at the most", answer,
						took, most)
				}
			}
		})
	}
}
