package onconsul_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A candidate has won, or hears nothing of that, and its token loses its rights before it has seen
// the leader's record as its own.
func TestALeaderThatHasNotSeenItselfLeadAndMayNoLongerWriteIsSucceeded(t *testing.T) {
	for name, c := range map[string]struct{ heard, sees, away bool }{
		"it heard, is away, and sees nothing":         {heard: true, away: true},
		"it heard, is away, and sees":                 {heard: true, sees: true, away: true},
		"it heard nothing, and sees nothing":          {},
		"it heard nothing, and sees":                  {sees: true},
		"it heard nothing, is away, and sees nothing": {away: true},
		"it heard nothing, is away, and sees":         {sees: true, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var r rights
				granted := s.grants(&r)
				takes := transport.TxnWith(contested+`/state/leader"`, `"lock"`)
				one, err := onconsul.Connect(onconsul.Config{Logger: s.log,
					Client: devconsul.ClientOver(transport.Func(
						func(q *http.Request) (*http.Response, error) {
							if r.denied.Load() || !takes(q) {
								return granted.RoundTrip(q)
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
