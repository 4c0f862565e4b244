package actors_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// agentOnly is a way to Consul whose agent is another one than coordd hopes for.
func agentOnly(to http.RoundTripper, path string,
	answer func(*http.Request) (*http.Response, error)) http.RoundTripper {
	return transport.Func(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, path) {
			if resp, err := answer(r); resp != nil || err != nil {
				return resp, err
			}
		}
		return to.RoundTrip(r)
	})
}

// Where the agent takes no check a member does its work without, and its session ends by its TTL.
func TestAMemberWorksWithoutACheckWhereTheAgentTakesNone(t *testing.T) {
	for name, answer := range transport.TakesNoCheck {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.way = agentOnly(c.consul.RoundTripper(), "/v1/agent/service/register", answer)
				c.addWork(c.items(6)...)
				for _, id := range []string{"n1", "n2"} {
					c.start(id)
				}
				c.await("shared out", 30*time.Second, c.balanced(6))
				for id, m := range c.members {
					if s := m.c.Session().Get(); s.Check != "" || s.Count != 1 {
						t.Errorf("the session of %s: %+v", id, s)
					}
				}
				bounds := c.members["n1"].c.Settings()
				bounds.CheckTTL = actors.NoCheck
				c.kill(c.follower())
				c.await("taken over", bounds.Bounds().TakeOver.Total(), c.balanced(6))
			})
		})
	}
}

// What an operator or an agent does to the instance costs a session, and the next one is bound to a
// check again.
func TestAnInstanceThatIsTakenAwayIsRegisteredAgain(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		victim := c.members[c.follower()]
		check := victim.c.Session().Get().Check
		if check == "" {
			t.Fatal("the session is bound to no check")
		}
		if err := c.client.Agent().ServiceDeregister(strings.TrimPrefix(check,
			"service:")); err != nil {
			t.Fatal(err)
		}
		c.await("another session", 20*time.Second, func() bool {
			s := victim.c.Session().Get()
			return s.Count == 2 && s.Check == check
		})
		c.await("all of it runs", 30*time.Second, c.balanced(9))
		c.stop(victim.id)
		services, err := c.client.Agent().Services()
		if err != nil || len(services) != 2 {
			t.Errorf("the agent shows %d instances, %v; want those of the other two", len(services),
				err)
		}
	})
}

// A machine starts its services in any order: a session that is opened when Consul has come at last
// is bound to a check like any other.
func TestAMemberThatWasThereBeforeConsulHasACheck(t *testing.T) {
	aways := []time.Duration{time.Second}
	for n := range 30 { // at any moment of what is tried meanwhile
		aways = append(aways, 6*time.Second+time.Duration(n*n)*71*time.Millisecond)
	}
	for _, away := range aways {
		t.Run(away.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				begin, consul := time.Now(), c.consul.RoundTripper()
				c.way = agentOnly(consul, "/", func(r *http.Request) (*http.Response, error) {
					if time.Since(begin) < away {
						return nil, errors.New("connection refused")
					}
					return nil, nil
				})
				m := c.start("n1")
				time.Sleep(away)
				c.await("a session", 15*time.Second, func() bool {
					return m.c.Session().Get().ID != ""
				})
				if s := m.c.Session().Get(); s.Check == "" {
					t.Errorf("it is bound to no check: %+v", s)
				}
			})
		})
	}
}
