package actors_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Whatever Consul, or something before it, does not tell the leader of work that fails: all other
// items come and go as ever. When it tells it again, an item that fails is taken away.
func TestWhatIsNotReadOfFailingWorkConcernsNoOther(t *testing.T) {
	for _, text := range []string{"quarantine/", "states/n2"} {
		for _, answer := range []string{"403", "400", "500", "lost", "silent"} {
			t.Run(answer+" "+strings.ReplaceAll(text, "/", "-"), func(t *testing.T) {
				logged(t, func(w watched) {
					var mended atomic.Bool
					var tries atomic.Int64
					direct := w.consul.RoundTripper()
					reads := holding("GET", text)
					w.way = transport.When(direct, func(r *http.Request) bool {
						return !mended.Load() && reads(r)
					}, map[string]transport.Func{
						"403":  transport.Always(403, "Permission denied"),
						"400":  transport.Always(400, "blocked by policy"),
						"500":  transport.Always(500, "out of order"),
						"lost": transport.Lose(direct), "silent": transport.Hang,
					}[answer])
					patience := time.Duration(1)
					if answer == "silent" { // each try takes its time
						patience = 5
					}
					await := func(what string, limit time.Duration, items ...string) {
						if _, ok := testkit.Virtual(limit*patience, 50*time.Millisecond,
							w.runs(items)); !ok {
							t.Error("not in time: ", what)
						}
					}
					items := w.items(20)
					sick := w.failing(&tries, func(_, item string) bool { return item == "sick" })
					w.addWork(items...)
					w.start("n1", limited(2), sick)
					w.await("n1 leads", time.Minute, func() bool { return w.leader() == "n1" })
					w.way = nil
					w.start("n2", limited(2), sick)
					await("all run", 15*time.Second, items...)
					w.addWork("sick")
					w.must(w.op.Pin(w.t.Context(), "sick", "n2"))
					time.Sleep(30 * time.Second)
					w.addWork("late")
					await("a late one", 5*time.Second, "late")
					w.kill("n2")
					await("all run again", time.Minute, append(items, "late")...)
					w.start("n2", limited(2), sick)
					time.Sleep(time.Minute)
					mended.Store(true)
					if answer != "403" { // which is asked again when there is something new
						w.await("it is quarantined", 5*time.Minute,
							w.state("sick", actors.ItemQuarantined))
					}
				})
			})
		}
	}
}

// An answer that nothing may be read ends the tries that earlier answers of another kind began.
func TestADenialEndsTheTriesToReadWhereWorkHasFailed(t *testing.T) {
	run(t, func(c *cluster) {
		var denies atomic.Bool
		var asked atomic.Int64
		c.way = transport.When(c.consul.RoundTripper(), holding("GET", "quarantine/"),
			func(r *http.Request) (*http.Response, error) {
				if n := asked.Add(1); n > 1000 {
					return transport.Hang(r) // so that the test ends
				}
				if denies.Load() {
					return transport.Answer(r, 403, "Permission denied"), nil
				}
				return transport.Answer(r, 400, "blocked by policy"), nil
			})
		c.addWork(c.items(10)...)
		c.start("n1")
		c.await("all of it runs", 30*time.Second, c.balanced(10))
		asked.Store(0)
		denies.Store(true)
		c.addWork("late")
		c.await("a late one", 5*time.Second, c.runs([]string{"late"}))
		time.Sleep(time.Minute)
		if n := asked.Load(); n > 2 {
			c.t.Errorf("the leader asked %d times in a minute for what it may not read", n)
		}
	})
}

// When the work of all members fails at once, and Consul takes its time with what they say of it,
// other items are given out all the same.
func TestWorkThatFailsAtManyMembersDelaysNobodyElse(t *testing.T) {
	logged(t, func(w watched) {
		const members = 40
		var tries atomic.Int64
		direct := w.consul.RoundTripper()
		w.way = transport.When(direct, holding("GET", "states/n"),
			func(r *http.Request) (*http.Response, error) {
				time.Sleep(800 * time.Millisecond)
				return direct.RoundTrip(r)
			})
		w.addWork(w.items(5 * members)...)
		for i := range members {
			w.start(fmt.Sprintf("n%02d", i), limited(1), w.failing(&tries,
				func(_, item string) bool { return !strings.HasPrefix(item, "well") }))
		}
		for i := range 6 {
			time.Sleep(3 * time.Second)
			well := fmt.Sprint("well_", i)
			w.addWork(well)
			w.await(well+" runs", 3*time.Second, w.runs([]string{well}))
		}
		w.await("all others are quarantined", 10*time.Minute, func() bool {
			return w.members[w.leader()].c.Plan().Get().Quarantined == 5*members
		})
	})
}
