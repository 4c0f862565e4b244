package actors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/aimed"
)

// Values that somebody aims at the keys of a cluster. The tests of internal/protocol hold what a
// reader takes each for, and the simulation draws them for every kind of key.

func TestAimedAcksConcernNobodyElse(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		n := 0
		aimed.Ack.Each(`"`+strings.Repeat("x", 30_000)+`"`, func(_ string, value []byte) {
			c.put(fmt.Sprintf("acks/ghost_%d", n), string(value))
			n++
		})
		status, err := c.operator().Status(c.t.Context())
		c.must(err)
		if len(status.Unreadable) < 10 {
			t.Errorf("of %d aimed acks the status names %q", n, status.Unreadable)
		}
		c.addWork("late")
		c.await("the new item", 10*time.Second, c.balanced(31))
		c.kill(c.follower())
		c.await("the lost member's items", 45*time.Second, c.balanced(31))
	})
}

// Ids that are each valid and make no key together: Consul refuses a key that holds a space, or two
// dots in a row, when escapes are taken out of the whole of it.
func TestIDsThatMakeNoKeyTogetherAreRefusedWhereTheyEnter(t *testing.T) {
	for _, id := range []string{"node 1", "node%201", "node%2d1", "100%", "node..1"} {
		_, err := actors.New(actors.Config{Service: "demo", ID: id})
		if err == nil || !strings.Contains(err.Error(), "space") && !strings.Contains(err.Error(),
			"percent escape") {
			t.Errorf("%q: %v", id, err)
		}
	}
}
