package onconsul_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// pokes has the long polls answered that wait for something below a key's folder.
func (s *embedded) pokes(key string) {
	_, err := s.consul.Client().KV().Put(&api.KVPair{Key: key}, nil)
	must(s.t, err)
	time.Sleep(time.Millisecond)
}

// A candidate has won, or hears nothing of that, and its token loses its rights before it has seen
// the leader's record as its own.
func TestALeaderThatHasNotSeenItselfLeadAndMayNoLongerWriteIsSucceeded(t *testing.T) {
	for name, c := range map[string]struct{ heard, sees, away, late bool }{
		"it heard, is away, and sees nothing":         {heard: true, away: true},
		"it heard, is away, and sees":                 {heard: true, sees: true, away: true},
		"it heard, then of before, and is away":       {heard: true, away: true, late: true},
		"it heard nothing, and sees nothing":          {},
		"it heard nothing, then of before":            {late: true},
		"it heard nothing, and sees":                  {sees: true},
		"it heard nothing, is away, and sees nothing": {away: true},
		"it heard nothing, is away, and sees":         {sees: true, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var r rights
				granted := s.grants(&r)
				takes := transport.TxnWith(contested+`/state/leader"`, `"lock"`)
				var late atomic.Bool
				one, err := onconsul.Connect(onconsul.Config{Logger: s.log,
					Client: devconsul.ClientOver(transport.Func(
						func(q *http.Request) (*http.Response, error) {
							if r.denied.Load() || !takes(q) {
								resp, err := granted.RoundTrip(q)
								if transport.Poll(q) && late.CompareAndSwap(true, false) {
									time.Sleep(100 * time.Millisecond)
								}
								return resp, err
							}
							if c.late { // the answer to a long poll is overtaken by that to this
								time.Sleep(200 * time.Millisecond) // by then one is under way
								late.Store(true)
								s.pokes("election/" + contested + "/state/odd")
							}
							resp, err := granted.RoundTrip(q)
							r.denied.Store(true)
							r.blind.Store(!c.sees)
							r.cut.Store(c.away)
							if !c.heard {
								return nil, io.ErrUnexpectedEOF
							}
							return resp, err
						}))})
				must(t, err)
				two := s.over(s.consul.RoundTripper())
				x, a, b := s.joins(two, "x", 0), s.joins(one, "a", 0), s.joins(two, "b", 0)
				x.Resign()
				<-x.Done()
				if c.away {
					time.Sleep(11 * time.Second)
					r.cut.Store(false)
				}
				// The lease, two tries and the lock-delay.
				if took := untilLeads(b); took > 30*time.Second {
					t.Errorf("after %v a is %v, and b %v", took, a.State().Get(), b.State().Get())
				}
				r.denied.Store(false)
				r.blind.Store(false)
				electiontest.Resign(a, b)
				one.Close()
				two.Close()
			})
		})
	}
}
