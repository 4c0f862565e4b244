package actors_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
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
				c.await("taken over", bounds.Bounds().TakeOver, c.balanced(6))
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

// A load balancer sends every other report to an agent that does not have the check: the session
// goes on, and the next one is bound to none.
func TestSeveralAgentsAtOneAddressCostNoSession(t *testing.T) {
	run(t, func(c *cluster) {
		var n atomic.Int64
		c.way = agentOnly(c.consul.RoundTripper(), "/v1/agent/check/update/",
			func(r *http.Request) (*http.Response, error) {
				if n.Add(1)%2 == 0 {
					return transport.Answer(r, 404, `Unknown check ID "x".`), nil
				}
				return nil, nil
			})
		three(c, 9)
		time.Sleep(2 * time.Minute)
		for id, m := range c.members {
			s := m.c.Session().Get()
			if s.Count != 1 {
				t.Errorf("%s has its session number %d", id, s.Count)
			}
			if _, err := c.client.Session().Destroy(s.ID, nil); err != nil {
				t.Fatal(err)
			}
		}
		c.await("sessions without a check", 30*time.Second, func() bool {
			for _, m := range c.members {
				if s := m.c.Session().Get(); s.Count != 2 || s.Check != "" {
					return false
				}
			}
			return true
		})
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

// An agent that takes no reports any more, because its token has lost the right to, costs a session
// and no more: the next one is bound to no check. A real one may not tell the catalog either that
// the check is critical then, where it passes for good.
func TestAnAgentThatTakesNoMoreReportsCostsOneSession(t *testing.T) {
	for name, passes := range map[string]bool{"the check turns critical": false,
		"the catalog is not told": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var denied atomic.Bool
				consul := c.consul.RoundTripper()
				c.way = agentOnly(consul, "/v1/agent/check/update/",
					func(r *http.Request) (*http.Response, error) {
						if !denied.Load() {
							time.Sleep(50 * time.Millisecond)
							return nil, nil
						}
						if passes {
							if resp, err := consul.RoundTrip(r); err == nil {
								resp.Body.Close()
							}
						}
						return transport.Answer(r, 403, "Permission denied"), nil
					})
				three(c, 9)
				time.Sleep(time.Minute)
				denied.Store(true)
				without := map[string]time.Duration{} // a session, by looks every 50 ms
				c.await("sessions without a check", time.Minute, func() bool {
					opened := 0
					for id, m := range c.members {
						switch s := m.c.Session().Get(); {
						case s.ID == "":
							without[id] += 50 * time.Millisecond
						case s.Count == 2 && s.Check == "":
							opened++
						}
					}
					return opened == 3
				})
				for id, d := range without {
					if d > 2*time.Second {
						t.Errorf("%s opened its next session after %v", id, d)
					}
				}
				c.await("shared out", time.Minute, c.balanced(9))
				time.Sleep(5 * time.Minute)
				for id, m := range c.members {
					if s := m.c.Session().Get(); s.Count != 2 {
						t.Errorf("%s has its session number %d", id, s.Count)
					}
				}
			})
		})
	}
}

// A Consul server that is started anew denies reports until it has read the tokens from its log.
// The next session is bound to the check nevertheless: without one it would be noticed late that
// this member dies, for as long as the session lasts.
func TestReportsThatAreDeniedForAMomentCostNoCheck(t *testing.T) {
	run(t, func(c *cluster) {
		var away, denied atomic.Bool
		consul := c.consul.RoundTripper()
		c.way = transport.Func(func(r *http.Request) (*http.Response, error) {
			switch path := r.URL.Path; {
			case away.Load():
				return nil, transport.ErrReset
			case !denied.Load():
			case strings.HasPrefix(path, "/v1/agent/"):
				return transport.Answer(r, 403, "ACL not found"), nil
			default:
				time.Sleep(2 * time.Second) // until it has read its log
				denied.Store(false)
			}
			return consul.RoundTrip(r)
		})
		m := c.start("n1")
		c.await("a session", 10*time.Second, func() bool { return m.c.Session().Get().ID != "" })
		check := m.c.Session().Get().Check
		time.Sleep(time.Minute)
		away.Store(true)
		time.Sleep(8 * time.Second)
		denied.Store(true)
		away.Store(false)
		c.await("the next session", time.Minute, func() bool {
			s := m.c.Session().Get()
			return s.Count == 2 && s.ID != ""
		})
		if now := m.c.Session().Get().Check; now != check || check == "" {
			t.Errorf("the next session is bound to %q, and the first one was to %q", now, check)
		}
	})
}

// So is one that is wanted while they are denied and the check passes: that is known of it.
func TestASessionThatIsLostWhileReportsAreDeniedForAMomentCostsNoCheck(t *testing.T) {
	run(t, func(c *cluster) {
		var denied atomic.Bool
		c.way = agentOnly(c.consul.RoundTripper(), "/v1/agent/check/update/",
			func(r *http.Request) (*http.Response, error) {
				if denied.Load() {
					return transport.Answer(r, 403, "ACL not found"), nil
				}
				return nil, nil
			})
		m := c.start("n1")
		c.await("a session", 10*time.Second, func() bool { return m.c.Session().Get().ID != "" })
		time.Sleep(time.Minute)
		was := m.c.Session().Get()
		denied.Store(true)
		time.Sleep(time.Second)
		c.must(c.store.DestroySession(c.t.Context(), was.ID))
		time.Sleep(2 * time.Second)
		denied.Store(false)
		c.await("the next session", time.Minute, func() bool {
			s := m.c.Session().Get()
			return s.Count == 2 && s.ID != ""
		})
		if now := m.c.Session().Get().Check; now != was.Check || now == "" {
			t.Errorf("the next session is bound to %q, and the first one was to %q", now, was.Check)
		}
	})
}

// A way to the agent that is too slow for the check every now and then costs two sessions, the next
// one is bound to no check, and once nothing was lost for ten minutes one may be again.
func TestACheckThatCostsTwoSessionsIsDoneWithout(t *testing.T) {
	run(t, func(c *cluster) {
		var hangs atomic.Bool
		c.way = agentOnly(c.consul.RoundTripper(), "/v1/agent/check/update/",
			func(r *http.Request) (*http.Response, error) {
				if hangs.Load() {
					return transport.Hang(r)
				}
				return nil, nil
			})
		c.addWork(c.items(3)...)
		m := c.start("n1")
		c.await("all of it runs", 30*time.Second, c.balanced(3))
		// lose plays a silence of the agent alone, and returns the session that follows.
		lose := func() messages.Session {
			was := m.c.Session().Get()
			hangs.Store(true)
			time.Sleep(10 * time.Second)
			hangs.Store(false)
			c.await("a session", time.Minute, func() bool {
				return m.c.Session().Get().Count > was.Count || was.Check == ""
			})
			time.Sleep(time.Minute)
			return m.c.Session().Get()
		}
		for n, bound := range []bool{true, false, false} {
			if s := lose(); (s.Check != "") != bound {
				t.Fatalf("the session after %d losses: %+v; want one that is bound: %v", n+1, s,
					bound)
			}
		}
		if n := m.c.Session().Get().Count; n != 3 {
			t.Errorf("it has its session number %d, want 3: none is lost without a check", n)
		}
		time.Sleep(10 * time.Minute)
		if _, err := c.client.Session().Destroy(m.c.Session().Get().ID, nil); err != nil {
			t.Fatal(err)
		}
		c.await("a session that is bound", time.Minute, func() bool {
			s := m.c.Session().Get()
			return s.Count == 4 && s.Check != ""
		})
	})
}
