package actors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// TestARollingRestartMovesEachItemOnce restarts all members one after the other with a new version,
// each of which is away for longer than its items wait. Those of the first have nobody of the new
// version to go to, so they move twice, and the last member has to be filled in the end.
func TestARollingRestartMovesEachItemOnce(t *testing.T) {
	const members, items = 5, 100
	for _, to := range []string{"1", "2"} { // from 1
		t.Run("to version "+to, func(t *testing.T) {
			run(t, func(c *cluster) {
				of := func(version string) option {
					return func(cfg *actors.Config) { cfg.WorkVersion = version }
				}
				all := func() (n int) {
					for _, load := range c.loads() {
						n += load
					}
					return n
				}
				op := c.operator()
				c.addWork(c.items(items)...)
				for n := range members {
					c.start(fmt.Sprintf("n%d", n+1), of("1"))
				}
				c.await("all run", time.Minute, c.balanced(items))
				before, reasons := c.totalStarts(), ""
				for n := range members {
					id := fmt.Sprintf("n%d", n+1)
					c.stop(id)
					c.await("all run without it", time.Minute, func() bool {
						return all() == items
					})
					for item, owner := range c.owners() {
						e, err := op.Explain(c.t.Context(), item)
						if err != nil {
							c.t.Fatal(err)
						}
						if reasons += e.There; strings.Contains(e.There, "prefers") && owner > id {
							c.t.Errorf("%s runs at %s: %s", item, owner, e.There)
						}
					}
					c.start(id, of(to))
					time.Sleep(30 * time.Second)
				}
				c.await("they are even", time.Minute, c.balanced(items))
				moves := c.totalStarts() - before
				c.t.Logf("%d items were started %d times", items, moves)
				if most := items * (members + 2) / members; to == "2" && moves > most {
					c.t.Errorf("%d moves: want %d at most", moves, most)
				}
				if to == "2" != strings.Contains(reasons, "it prefers version 2") {
					c.t.Errorf("explain says %q", reasons)
				}
			})
		})
	}
}
