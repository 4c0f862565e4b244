package actors_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// openPolls counts the long polls that are under way, by path.
type openPolls struct {
	mu  sync.Mutex
	now map[string]int
}

func (o *openPolls) on(to http.RoundTripper) transport.Func {
	return func(r *http.Request) (*http.Response, error) {
		if transport.Poll(r) {
			o.count(r, 1)
			defer o.count(r, -1)
		}
		return to.RoundTrip(r)
	}
}

func (o *openPolls) count(r *http.Request, by int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now == nil {
		o.now = map[string]int{}
	}
	o.now[r.URL.Path] += by
}

// polled is how many long polls are open, and how many paths they are for.
func (o *openPolls) polled() (polls, paths int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.now {
		if polls += n; n > 0 {
			paths++
		}
	}
	return polls, paths
}

// A member that routes polls no prefix twice: the leader neither members/ nor acks/, and nobody its
// own assignments.
func TestAMemberThatRoutesPollsEachPrefixOnce(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(9)...)
		open := map[string]*openPolls{}
		for _, id := range []string{"n1", "n2", "n3"} {
			open[id] = &openPolls{}
			c.way = open[id].on(c.consul.RoundTripper())
			c.start(id).c.Router().Open()
		}
		c.await("shared out", time.Minute, c.balanced(9))
		check := func(when string) {
			t.Helper()
			for id, o := range open {
				// the leader key, its record, members/, acks/ and three shares
				want := 7
				if id == c.leader() { // workload/ and control/, too
					want = 9
				}
				if polls, paths := o.polled(); polls != want || paths != want {
					t.Errorf("%s: %s has %d polls of %d paths open, want %d: %v", when, id, polls,
						paths, want, o.now)
				}
			}
		}
		time.Sleep(10 * time.Second)
		check("after the start")
		time.Sleep(10 * time.Minute)
		check("idle")
		first := c.leader()
		c.stop(first)
		delete(open, first)
		open[first] = &openPolls{}
		c.way = open[first].on(c.consul.RoundTripper())
		c.start(first).c.Router().Open()
		c.await("shared out again", time.Minute, c.balanced(9))
		time.Sleep(10 * time.Second)
		check("under another leader")
	})
}

// A router whose own member polls for it finds out what that poll has missed as soon as any other
// router does.
func TestASharedPollThatHangsMakesNoAnswerOlderThanTheGreatestAge(t *testing.T) {
	for _, deaf := range []string{"member-watcher", "ack-watcher", "assignment-watcher"} {
		for name, leave := range map[string]func(*cluster, string){
			"stopped": (*cluster).stop, "killed": (*cluster).kill} {
			t.Run(fmt.Sprint(deaf, " ", name), func(t *testing.T) {
				run(t, func(c *cluster) {
					o, items := c.onlookThree(6)
					defer o.stop()
					leader := c.members[c.leader()]
					o.router = leader.c.Router()
					c.await("located", time.Second, o.agrees(items))
					thawed := make(chan struct{})
					leader.net.Via(frozenFor(leader.net.To(), deaf, thawed))
					c.addWork("one-more") // what is under way ends
					o.watch(items, 10*time.Second, propagation)
					leave(c, c.follower())
					o.watch(items, 40*time.Second, o.router.MaxAge()+propagation)
					close(thawed)
					c.await("shared out once more", 2*time.Minute, c.balanced(7))
					c.await("located again", o.router.MaxAge(), o.agrees(items))
				})
			})
		}
	}
}
