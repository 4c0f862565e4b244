package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// Where nobody is waited for there is a bound, too: of an item that is added, and of those of a
// member that stops, whose work ends at once here. The workload changes all the time, so no change
// is placed before it has waited for as long as a leader merges, and each answer of Consul's takes
// as long as the bounds reckon with.
func TestWhatIsHandedOverRunsWithinItsBound(t *testing.T) {
	const answer, changes = 60 * time.Millisecond, 200 * time.Millisecond
	stop := func(who func(c *cluster) string) func(c *cluster) func() bool {
		return func(c *cluster) func() bool {
			c.stop(who(c))
			return c.runs(c.items(30))
		}
	}
	for name, event := range map[string]func(c *cluster) (done func() bool){
		"an item is added": func(c *cluster) func() bool {
			c.addWork("new")
			return c.runs([]string{"new"})
		},
		"a member stops":   stop((*cluster).follower),
		"the leader stops": stop((*cluster).leader),
	} {
		for phase := range 5 {
			run(t, func(c *cluster) {
				way := transport.NewWire(c.consul.RoundTripper())
				c.way = way
				three(c, 30)
				way.Slow(func() time.Duration { return answer })
				bound := c.members["n1"].c.Settings().Bounds().HandOver.Total()
				over, ended := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(ended)
					for n := 0; ; n++ {
						select {
						case <-over:
							return
						case <-time.After(changes):
							c.addWork(fmt.Sprintf("other-%d", n))
						}
					}
				}()
				time.Sleep(10*time.Second + time.Duration(phase)*changes)
				began := time.Now()
				done := event(c)
				c.await("it runs", time.Minute, done)
				if took := time.Since(began); took > bound {
					t.Errorf("%s: it runs after %v, want %v at the most", name, took, bound)
				}
				close(over)
				<-ended
				way.Via(c.consul.RoundTripper())
			})
		}
	}
}
