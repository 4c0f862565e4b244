package actors_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// tagged are the members whose instance passes and has this tag.
func (c *cluster) tagged(tag string) []string {
	c.t.Helper()
	found, _, err := c.client.Health().Service("demo", tag, true, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	ids := []string{}
	for _, i := range found {
		ids = append(ids, i.Service.Meta["coordd-member"])
	}
	slices.Sort(ids)
	return ids
}

func (c *cluster) awaitTagged(limit time.Duration, tag string, ids ...string) {
	c.t.Helper()
	c.await(fmt.Sprintf("tag %s at %v", tag, ids), limit, func() bool {
		return slices.Equal(c.tagged(tag), ids)
	})
}

// awaitLeader waits until the leader's instance has the leader's tag, and no other one has.
func (c *cluster) awaitLeader(limit time.Duration) {
	c.t.Helper()
	c.await("the tag at the leader", limit, func() bool {
		return c.leader() != "" && slices.Equal(c.tagged("leader"), []string{c.leader()})
	})
}

// instanceOf is a member's instance as its agent shows it.
func (c *cluster) instanceOf(id string) *api.AgentService {
	c.t.Helper()
	all, err := c.client.Agent().Services()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, i := range all {
		if i.Meta["coordd-member"] == id {
			return i
		}
	}
	c.t.Fatalf("the agent shows no instance of %s", id)
	return nil
}

func (c *cluster) outputOf(id string) string {
	c.t.Helper()
	checks, err := c.client.Agent().Checks()
	if err != nil {
		c.t.Fatal(err)
	}
	return checks["service:"+c.instanceOf(id).ID].Output
}

// oneSession fails if a member has lost a session.
func (c *cluster) oneSession() {
	c.t.Helper()
	for id, m := range c.members {
		if s := m.c.Session().Get(); s.Count != 1 || s.Check == "" {
			c.t.Errorf("the session of %s: %+v", id, s)
		}
	}
}

// The instance of the leader has the tag `leader`, that of a member that is emptied `draining`;
// both follow the truth, and no change of them costs a session.
func TestTheTagsOfAnInstanceSayWhoLeadsAndWhoIsDrained(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		leader, follower := c.leader(), c.follower()
		c.awaitTagged(5*time.Second, "leader", leader)
		if got := c.tagged("draining"); len(got) > 0 {
			t.Errorf("%v are draining", got)
		}
		c.put("control/drain/"+follower, "")
		c.awaitTagged(8*time.Second, "draining", follower)
		c.await("its check says so", 2*time.Second, func() bool {
			return strings.Contains(c.outputOf(follower), "0 items run") &&
				strings.HasSuffix(c.outputOf(follower), "; is being emptied")
		})
		c.delete("control/drain/" + follower)
		c.awaitTagged(70*time.Second, "draining")
		c.await("shared out", 30*time.Second, c.balanced(9))
		if out := c.outputOf(leader); !strings.Contains(out, ": 3 items run; the lease has ") ||
			!strings.HasSuffix(out, " left; leads") {
			t.Errorf("the leader's check says %q", out)
		}
		c.put("leader", "a stranger") // the leader takes it again, in a new term or the same one
		time.Sleep(20 * time.Second)
		c.awaitLeader(5 * time.Second)
		c.oneSession()
		c.stop(c.leader())
		c.awaitLeader(5 * time.Second)
		c.kill(c.leader())
		c.awaitLeader(time.Minute)
	})
}

// A host's own tags stand beside coordd's, and change while the member runs, without a new session.
func TestTheTagsOfAHostStandBesideOurs(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(2)...)
		m := c.start("n1", func(cfg *actors.Config) { cfg.Tags = []string{"edge", "eu"} })
		c.await("they are shown", 20*time.Second, func() bool {
			return m.c.Session().Get().Check != "" &&
				slices.Equal(c.instanceOf("n1").Tags, []string{"leader", "edge", "eu"})
		})
		if err := m.c.SetTags("edge", "leader"); !errors.Is(err, actors.ErrConfig) {
			t.Errorf("a tag of ours: %v", err)
		}
		if err := m.c.SetTags("core"); err != nil {
			t.Error(err)
		}
		c.awaitTagged(16*time.Second, "core", "n1")
		c.awaitTagged(0, "edge")
		c.awaitLeader(0)
		if err := m.c.SetTags(); err != nil {
			t.Error(err)
		}
		c.awaitTagged(16*time.Second, "core")
		c.oneSession()
	})
}

func TestATagIsAPlainText(t *testing.T) {
	many := make([]string, actors.MostTags+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, bad := range [][]string{{""}, {"a", "a"}, {"Leader"}, {"draining"}, {" a"}, {"a\n"},
		{"\xff"}, {strings.Repeat("a", actors.MostTagBytes+1)}, many} {
		if err := actors.CheckTags(bad); err == nil {
			t.Errorf("%.60q are taken", bad)
		}
		cfg := actors.Config{Service: "demo", ID: "n1", Tags: bad}
		if err := cfg.Validate(); !errors.Is(err, actors.ErrConfig) {
			t.Errorf("settings with %.60q: %v", bad, err)
		}
	}
	fine := []string{"traefik.http.routers.x.rule=Host(`a.b`)", "v1.2", "ä", "leaders"}
	if err := actors.CheckTags(fine); err != nil {
		t.Error(err)
	}
}

// A leader whose duty waits for its predecessor's lease is not shown as the leader before.
func TestAnInstanceHasTheLeadersTagNotBeforeItsDutyMayRun(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 3)
		c.awaitLeader(5 * time.Second)
		c.kill(c.leader())
		var leads *member
		c.await("another leader", time.Minute, func() bool {
			for _, m := range c.members {
				if !m.c.Leadership().Get().ClearAt.IsZero() {
					leads = m
					return true
				}
			}
			return false
		})
		time.Sleep(time.Until(leads.c.Leadership().Get().ClearAt) - 100*time.Millisecond)
		if got := c.tagged("leader"); len(got) > 0 {
			t.Errorf("%v has the tag before its duty may run", got)
		}
		if out := c.outputOf(leads.id); !strings.Contains(out, "its duty waits") {
			t.Errorf("its check says %q", out)
		}
		c.awaitTagged(time.Second, "leader", leads.id)
	})
}

// Nothing depends on an agent that takes no change of the labels, and when it does again, or when a
// late copy of an old registration has come, the labels are made true.
func TestLabelsThatTheAgentDoesNotTakeCostNothing(t *testing.T) {
	run(t, func(c *cluster) {
		var refuse atomic.Bool
		c.way = agentOnly(c.consul.RoundTripper(), "/v1/agent/service/register",
			func(r *http.Request) (*http.Response, error) {
				if refuse.Load() {
					return transport.Answer(r, 500, "no"), nil
				}
				return nil, nil
			})
		three(c, 9)
		c.awaitLeader(5 * time.Second)
		refuse.Store(true)
		c.stop(c.leader())
		time.Sleep(time.Minute)
		if got := c.tagged("leader"); len(got) > 0 {
			t.Errorf("%v have the tag", got)
		}
		c.await("all of it runs", 30*time.Second, c.balanced(9))
		c.oneSession()
		refuse.Store(false)
		c.awaitLeader(20 * time.Second)
	})
}

// An agent takes every instance, whatever its member's settings say, and so every member has a
// check; an address that is nobody's, or somebody else's on each host, is left to the agent.
func TestWhateverAMembersSettingsSayItHasAnInstance(t *testing.T) {
	long := strings.Repeat("ä", 300)
	for _, test := range []struct {
		address, zone string
		want          string
		port          int
	}{
		{"10.0.0.7:9000", "a", "10.0.0.7", 9000},
		{"n1.example:9000", "a", "n1.example", 9000},
		{"[2001:db8::7]:9000", "a", "2001:db8::7", 9000},
		{"10.0.0.7", "a", "10.0.0.7", 0},
		{"[2001:db8::7]", "a", "2001:db8::7", 0},
		{"n1.example", "a", "", 0},
		{"n1.example:http", "a", "n1.example", 0},
		{"0.0.0.0:9000", "a", "", 9000},
		{"[::]:9000", "a", "", 9000},
		{":9000", "a", "", 9000},
		{"127.0.0.1:9000", "a", "", 9000},
		{"localhost:9000", "a", "", 9000},
		{"a:b:c", long, "", 0},
		{"", "", "", 0},
	} {
		t.Run(test.address, func(t *testing.T) {
			run(t, func(c *cluster) {
				m := c.start("n1", func(cfg *actors.Config) {
					cfg.Address, cfg.Zone, cfg.Version = test.address, test.zone, long
				})
				c.await("a session", 15*time.Second, func() bool {
					return m.c.Session().Get().ID != ""
				})
				if m.c.Session().Get().Check == "" {
					t.Fatal("it is bound to no check")
				}
				i := c.instanceOf("n1")
				if i.Address != test.want || i.Port != test.port {
					t.Errorf("the instance is at %q, port %d; want %q, %d", i.Address, i.Port,
						test.want, test.port)
				}
				want := test.zone
				if want == long {
					want = strings.Repeat("ä", 256)
				}
				if i.Meta["zone"] != want || i.Meta["version"] != strings.Repeat("ä", 256) {
					t.Errorf("its metadata: %v", i.Meta)
				}
			})
		})
	}
}
