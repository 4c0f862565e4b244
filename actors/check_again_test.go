package actors_test

import (
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// An agent that loses what it was told four times in a few minutes may be several ones. When
// nothing has gone astray for ten minutes it is one again, and sessions are bound to its check.
func TestReportsThatHaveGoneAstrayAreForgottenInTime(t *testing.T) {
	run(t, func(c *cluster) {
		var astray atomic.Bool
		c.way = agentOnly(c.consul.RoundTripper(), "/v1/agent/check/update/",
			func(r *http.Request) (*http.Response, error) {
				if astray.Swap(false) {
					return transport.Answer(r, 404, `Unknown check ID "x".`), nil
				}
				return nil, nil
			})
		c.addWork(c.items(3)...)
		m := c.start("n1")
		c.await("all of it runs", 30*time.Second, c.balanced(3))
		// another destroys the session and returns what the next one is bound to.
		another := func() string {
			was := m.c.Session().Get()
			if _, err := c.client.Session().Destroy(was.ID, nil); err != nil {
				t.Fatal(err)
			}
			c.await("another session", time.Minute, func() bool {
				s := m.c.Session().Get()
				return s.ID != "" && s.Count > was.Count
			})
			return m.c.Session().Get().Check
		}
		for range 4 {
			astray.Store(true)
			time.Sleep(time.Minute)
		}
		if check := another(); check != "" {
			t.Errorf("the session is bound to %q, although there may be several agents", check)
		}
		time.Sleep(10 * time.Minute)
		if another() == "" {
			t.Error("the session is bound to no check, ten minutes after the last stray report")
		}
	})
}

// A registration that was slow, or whose answer was lost, may have been done: a clean stop takes
// the instance away.
func TestAnInstanceOfWhichTheMemberDoesNotKnowIsTakenAwayWithIt(t *testing.T) {
	for name, late := range map[string]time.Duration{"slow": 2500 * time.Millisecond,
		"lost": time.Hour} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.way = transport.Func(func(r *http.Request) (*http.Response, error) {
					resp, err := c.consul.RoundTripper().RoundTrip(r)
					if err == nil && strings.HasPrefix(r.URL.Path, "/v1/agent/service/register") {
						select {
						case <-time.After(late):
						case <-r.Context().Done():
							resp.Body.Close()
							return nil, r.Context().Err()
						}
					}
					return resp, err
				})
				c.addWork(c.items(3)...)
				c.start("n1")
				c.await("all of it runs", 30*time.Second, c.balanced(3))
				c.stop("n1")
				if left, err := c.client.Agent().Services(); err != nil || len(left) > 0 {
					t.Errorf("the agent shows %d instances, %v", len(left), err)
				}
			})
		})
	}
}

// A host's own transport that panics, or ends the goroutine, whenever the agent is asked, costs the
// member its check, and no more: it works, and lives.
func TestATransportThatFailsWithTheAgentCostsTheCheckOnly(t *testing.T) {
	for i, path := range []string{"/v1/agent/", "/v1/agent/service/register",
		"/v1/agent/check/update/", "/v1/agent/service/demo"} {
		for name, fail := range map[string]func(){"panics": func() { panic("no agent") },
			"ends": runtime.Goexit} {
			if raceDetector && (name == "ends") != (i%2 == 0) {
				continue
			}
			t.Run(name+" "+path[len("/v1/agent"):], func(t *testing.T) {
				run(t, func(c *cluster) {
					var fails atomic.Bool
					c.way = agentOnly(c.consul.RoundTripper(), path,
						func(*http.Request) (*http.Response, error) {
							if fails.Load() {
								fail()
							}
							return nil, nil
						})
					three(c, 9)
					for n := range 2 {
						fails.Store(true)
						if n > 0 { // from the beginning
							c.start("n4")
						}
						for range 8 {
							c.put("leader", "a stranger") // so that labels change
							time.Sleep(20 * time.Second)
						}
						c.await("shared out", 30*time.Second, c.balanced(9))
						fails.Store(false)
						time.Sleep(2 * time.Minute)
					}
					for id, m := range c.members {
						select {
						case <-m.done:
							t.Errorf("%s has ended: %v", id, m.err)
						default:
						}
					}
				})
			})
		}
	}
}
