package actors_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// finishes carries out what was sent also when its sender has given up: at once, or late when the
// answer would have come. Each answer takes that long.
func finishes(to http.RoundTripper, answer time.Duration, late bool) transport.Func {
	return func(r *http.Request) (*http.Response, error) {
		if transport.Poll(r) {
			return to.RoundTrip(r)
		}
		type reply struct {
			resp *http.Response
			err  error
		}
		replies, own := make(chan reply, 1), r.Clone(context.WithoutCancel(r.Context()))
		go func() {
			if late {
				time.Sleep(answer)
			}
			resp, err := to.RoundTrip(own)
			if !late {
				time.Sleep(answer)
			}
			replies <- reply{resp, err}
		}()
		select {
		case got := <-replies:
			return got.resp, got.err
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// Answers may take T/5, and docs/guarantees.md says how many of them a hand-over waits for, one
// after the other. Its bound has a second for all of them.
func TestAMemberThatStopsHandsOverHoweverSlowlyConsulAnswers(t *testing.T) {
	ways := map[string]func(to http.RoundTripper, answer time.Duration) http.RoundTripper{
		"nothing of what its sender gave up": nil,
		"all, at once": func(to http.RoundTripper, answer time.Duration) http.RoundTripper {
			return finishes(to, answer, false)
		},
		"all, late": func(to http.RoundTripper, answer time.Duration) http.RoundTripper {
			return finishes(to, answer, true)
		},
	}
	for carried, slow := range ways {
		for _, who := range []struct {
			name    string
			stops   func(c *cluster) string
			answers time.Duration
		}{{"a member", (*cluster).follower, 6}, {"the leader", (*cluster).leader, 16}} {
			for _, answer := range []time.Duration{600, 1100, 1900} {
				answer *= time.Millisecond
				t.Run(who.name+", "+answer.String()+", carries out "+carried, func(t *testing.T) {
					run(t, func(c *cluster) {
						way := transport.NewWire(c.consul.RoundTripper())
						c.way = way
						three(c, 30)
						if slow == nil {
							way.Slow(func() time.Duration { return answer })
						} else {
							way.Via(slow(c.consul.RoundTripper(), answer))
						}
						time.Sleep(20 * time.Second)
						gone := who.stops(c)
						m, began := c.members[gone], time.Now()
						delete(c.members, gone)
						m.cancel()
						most := m.c.Settings().Bounds().HandOver.Total() + who.answers*answer
						items := c.await("all work elsewhere", time.Minute, func() bool {
							loads := c.loads()
							return loads[gone] == 0 && c.balanced(30)()
						})
						c.await("another Lead", time.Minute, func() bool {
							l := c.leader()
							return l != "" && l != gone
						})
						lead := time.Since(began)
						if <-m.done; m.err != nil {
							t.Errorf("Run returned %v", m.err)
						}
						if items > most || lead > most {
							t.Errorf("items run elsewhere after %v, Lead after %v, want %v "+
								"at the most", items, lead, most)
						}
						way.Via(c.consul.RoundTripper())
						time.Sleep(answer) // what is on its way arrives
					})
				})
			}
		}
	}
}
