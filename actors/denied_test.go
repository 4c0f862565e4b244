package actors_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// hiddenSession is a way to Consul with a token that may not read one session, as one is that is
// allowed the sessions of some nodes.
type hiddenSession struct {
	http.RoundTripper
	mu sync.Mutex
	id string
}

func (h *hiddenSession) hide(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id = id
}

func (h *hiddenSession) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.RoundTripper.RoundTrip(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && h.id != "" && r.URL.Path == "/v1/session/info/"+h.id {
		resp.Body.Close()
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader("[]")), 2
		resp.Header.Set("X-Consul-Results-Filtered-By-Acls", "true")
	}
	return resp, err
}

func TestASessionThatMayNotBeReadConcernsNobodyElse(t *testing.T) {
	foreign := func(c *cluster) string {
		id, _, err := c.client.Session().Create(&api.SessionEntry{Name: "of another node",
			TTL: "1h"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for name, aim := range map[string]func(c *cluster, way *hiddenSession){
		"an ack of nobody's": func(c *cluster, way *hiddenSession) {
			id := foreign(c)
			way.hide(id)
			c.put("acks/ghost", fmt.Sprintf(`{"n":1,"sid":%q,"ttl":10000000000}`, id))
		},
		"two records": func(c *cluster, way *hiddenSession) {
			id := foreign(c)
			way.hide(id)
			for _, ghost := range []string{"ghost_1", "ghost_2"} {
				key := c.store.Keys().Member(ghost)
				ok, _, err := c.client.KV().Acquire(&api.KVPair{Key: key, Session: id,
					Value: []byte("leaving")}, nil)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
			}
		},
		"a lost member": func(c *cluster, way *hiddenSession) {
			lost := c.follower()
			way.hide(c.members[lost].c.Session().Get().ID)
			c.kill(lost)
			time.Sleep(40 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				way := &hiddenSession{RoundTripper: c.consul.RoundTripper()}
				c.way = way
				three(c, 30)
				aim(c, way)
				before := c.totalStarts()
				c.addWork("late_1", "late_2", "late_3")
				c.await("the new items", 10*time.Second, func() bool {
					return c.totalStarts() == before+3
				})
			})
		})
	}
}

// An absence that was confirmed says nothing any more once the ack is another, though what that one
// names may not be read: nothing is written upon it, again and again, that Consul refuses.
func TestAnAckThatMayNotBeLookedIntoDelaysNobodyElse(t *testing.T) {
	run(t, func(c *cluster) {
		way := &hiddenSession{RoundTripper: c.consul.RoundTripper()}
		c.way = way
		three(c, 30)
		lost := c.follower()
		c.kill(lost)
		time.Sleep(25 * time.Second) // its grace runs
		id, _, err := c.client.Session().Create(&api.SessionEntry{Name: "of another node",
			TTL: "1h"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		way.hide(id)
		c.put("acks/"+lost, fmt.Sprintf(`{"n":1,"sid":%q,"ttl":10000000000}`, id))
		time.Sleep(time.Minute)
		for i := range 8 {
			item := fmt.Sprint("late_", i)
			c.addWork(item)
			c.await(item, 2*time.Second, func() bool { return c.startsOf(item) > 0 })
			time.Sleep(7 * time.Second)
		}
	})
}

// A strange record that the leader may not delete concerns nobody but who it names.
func TestARecordThatMayNotBeDeletedConcernsNobodyElse(t *testing.T) {
	for _, how := range []refusal{{400, "blocked by policy"}, {403, "Permission denied"}} {
		t.Run(how.body, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.way = refusing(c.consul.RoundTripper(), how, `"delete-cas"`, "members/ghost")
				three(c, 30)
				ok, _, err := c.client.KV().Acquire(&api.KVPair{
					Key:     c.store.Keys().Member("ghost"),
					Session: c.members[c.follower()].c.Session().Get().ID,
					Value:   []byte("leaving")}, nil)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				time.Sleep(time.Minute)
				c.addWork("late")
				c.await("a later item", 5*time.Second, c.runs([]string{"late"}))
			})
		})
	}
}

// To members without a token Consul does not say that it leaves out what they may not read: for a
// minute they see no items, no members and no controls.
func TestMembersThatMayReadNothingForAWhileGoOn(t *testing.T) {
	run(t, func(c *cluster) {
		var denied atomic.Bool
		c.way = transport.Anonymous(c.consul.RoundTripper(), denied.Load)
		three(c, 30)
		before := c.totalStarts()
		denied.Store(true)
		for i := range 6 { // a poll that is under way keeps its rights
			for _, folder := range []string{"workload", "members", "control", "acks"} {
				c.put(folder+"/odd", fmt.Sprint(i))
				c.delete(folder + "/odd")
			}
			time.Sleep(5 * time.Second)
		}
		denied.Store(false)
		c.addWork("late")
		c.await("a later item", 10*time.Second, c.runs([]string{"late"}))
		if n := c.totalStarts() - before; n > 3 {
			t.Errorf("%d items were started anew", n)
		}
	})
}
